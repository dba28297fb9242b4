//! The templates of a chart and its subcharts, executed as one set: every file may include what any other defines.
//!
//! Helm's own functions are here, since they execute templates: `include`, `tpl`, `required` and `lookup`.

pub(crate) mod state;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::{Arc, LazyLock, OnceLock};

use gotemplate::{
    Args, Call, Depth, Executor, Failure, Function, Functions, Map, MissingKey, Param, ParseError,
    Signature, Stop, Str, Templates, Value,
};
use vela_gocompat::strconv;

use crate::chart::{Chart, ParsedFile, Slots};
use crate::functions;
use crate::host::Lookup;
use crate::json::from_json;
use crate::objects::{Capabilities, CapabilitiesObject, ChartObject, Files, table, values_of};
use crate::release::Release;
use crate::rendered::{RenderedText, has_no_value, text_of, without_no_value};
use crate::values::Table;
use state::{OverBudget, Refused, State, over};

/// What the set of all templates is called, in messages and inside of `tpl`.
const SET: &str = "gotpl";

/// An error of a template, as Helm words it.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// A file is no template.
    #[error("parse error at ({}:{}): {}", .0.name(), .0.line(), last_part(.0.message()))]
    Parse(ParseError),
    /// The chart refuses its values, by `required` or `fail`.
    #[error("execution error at ({location}): {message}")]
    Refused {
        /// File, line and column of the outermost template.
        location: String,
        /// What the chart says.
        message: String,
    },
    /// Any other error of an execution.
    #[error(transparent)]
    Exec(Box<gotemplate::ExecError>),
    /// A template that is not there.
    #[error("{0}")]
    NotDefined(String),
    /// The render was ended.
    #[error("{at}: {bound}")]
    OverBudget {
        /// The file whose template was running, line and column.
        at: String,
        /// What was crossed.
        bound: OverBudget,
    },
    /// The render was ended for a reason of the host.
    #[error("{at}: {stop}")]
    Stopped {
        /// The file whose template was running, line and column.
        at: String,
        /// Why.
        stop: Stop,
    },
}

fn last_part(message: &str) -> &str {
    message.rsplit(": ").next().unwrap_or(message)
}

/// All functions that templates may call.
static FUNCTIONS: LazyLock<Arc<Functions<State>>> =
    LazyLock::new(|| Arc::new(Functions::new(functions::tables().into_iter().chain([TABLE]))));

/// A file that is parsed and perhaps rendered.
struct File {
    text: Str,
    /// Of the chart's templates, and which one this is.
    parsed: Slots,
    index: usize,
    /// The map that its templates see; all files of a chart share it.
    scope: Map,
    base_path: String,
}

impl File {
    /// Takes the file into a set; it is parsed at the first render of its chart. Gives whether its text has what values
    /// that are not there print.
    fn parse_into(&self, path: &str, templates: &mut Templates<State>) -> Result<bool, ParseError> {
        let slot = self.parsed.get(self.index);
        if let Some(file) = slot.and_then(OnceLock::get) {
            templates.add(&file.parsed);
            return Ok(file.has_no_value);
        }
        let parsed = templates.read(path, &self.text)?;
        templates.add(&parsed);
        let has_no_value = has_no_value(&self.text.to_str_lossy());
        if let Some(slot) = slot {
            let _ = slot.set(ParsedFile { parsed, has_no_value });
        }
        Ok(has_no_value)
    }
}

/// What all charts of a render see.
struct Common {
    release: Value,
    capabilities: Value,
}

/// Renders all files of a chart; by path, without those that only have definitions.
pub(crate) fn render(
    chart: &Chart,
    values: &Table,
    release: &Release,
    capabilities: &Capabilities,
    state: &mut State,
) -> Result<BTreeMap<String, RenderedText>, TemplateError> {
    let common = Common {
        release: release_map(release),
        capabilities: Value::object(CapabilitiesObject::new(capabilities)),
    };
    let mut files = BTreeMap::new();
    collect(chart, "", &table(values), &common, &mut files);
    // The deepest first, then from Z to A: what is parsed later replaces definitions of the same name.
    let mut order: Vec<(&String, &File)> = files.iter().collect();
    order.sort_by_key(|(path, _)| std::cmp::Reverse((path.matches('/').count(), *path)));
    let mut templates = Templates::new(SET, Arc::clone(&FUNCTIONS)).missing_key(MissingKey::Zero);
    let mut plain = true;
    for (path, file) in &order {
        plain &= !file.parse_into(path, &mut templates).map_err(TemplateError::Parse)?;
    }
    let (budget, mut total) = (state.budget, 0);
    let depth = Depth { stack: budget.stack, ..Depth::default() };
    let mut executor = Executor::new(Arc::new(templates), state).depth(depth);
    let mut rendered = BTreeMap::new();
    for (path, file) in order {
        if path.rsplit('/').next().is_some_and(|name| name.starts_with('_')) {
            continue;
        }
        let template = values_of(Map::from_iter([
            (Str::from("Name"), Value::from(path.as_str())),
            (Str::from("BasePath"), Value::from(file.base_path.as_str())),
        ]));
        let set = executor.act(|call| call.insert(&file.scope, "Template".into(), template));
        if let Err(Failure::Stop(stop)) = set {
            return Err(failed(path, gotemplate::Error::Stop(stop)));
        }
        let output = match executor.execute_sharing(path, values_of(file.scope.clone())) {
            Ok(output) => output,
            Err(error) => {
                let at = executor.stopped().map_or_else(|| path.clone(), ToString::to_string);
                return Err(failed(&at, error));
            }
        };
        let text = RenderedText::new(output, plain);
        total += text.len();
        let over_budget = |bound| TemplateError::OverBudget { at: path.clone(), bound };
        if text.len() > budget.file {
            return Err(over_budget(OverBudget::Text(budget.file)));
        }
        if total > budget.total {
            return Err(over_budget(OverBudget::Total(budget.total)));
        }
        rendered.insert(path.clone(), text);
    }
    Ok(rendered)
}

fn release_map(release: &Release) -> Value {
    let entries = [
        ("Name", Value::from(release.name.as_str())),
        ("Namespace", Value::from(release.namespace.as_str())),
        ("IsUpgrade", release.is_upgrade.into()),
        ("IsInstall", (!release.is_upgrade).into()),
        ("Revision", Value::int(release.revision)),
        ("Service", Value::from("Helm")),
    ];
    Map::from_iter(entries.map(|(key, value)| (Str::from(key), value))).into()
}

/// Adds the files of a chart and its subcharts, and gives the map that its templates see. `parent` is the path of the
/// chart around it, empty for the root.
fn collect(
    chart: &Chart,
    parent: &str,
    values: &Map,
    common: &Common,
    files: &mut BTreeMap<String, File>,
) -> Map {
    let path = chart.path(parent);
    let subcharts = chart.dependencies.iter().map(|subchart| {
        // The section is the same map as in the parent's values: what one changes, the other sees.
        let section =
            subchart.name().split('.').try_fold(values.clone(), |map, part| match map.get(part) {
                Some(Value::Map(section)) => Some(section),
                _ => None,
            });
        let section = section.unwrap_or_else(|| Map::from_iter([]));
        let inner = chart.path_around(subchart, parent);
        let scope = collect(subchart, &inner, &section, common, files);
        (Str::from(subchart.name()), Value::Map(scope))
    });
    let subcharts: Map = subcharts.collect();
    let entries = [
        ("Chart", Value::object(ChartObject::new(&chart.metadata, parent.is_empty()))),
        ("Files", Value::object(Files::new(&chart.files))),
        ("Release", common.release.clone()),
        ("Capabilities", common.capabilities.clone()),
        ("Values", values_of(values.clone())),
        ("Subcharts", subcharts.into()),
    ];
    let scope = Map::from_iter(entries.map(|(key, value)| (Str::from(key), value)));
    let library = chart.metadata.is_library();
    let parsed = chart.compiled.templates(&path, chart.templates.len());
    for (index, template) in chart.templates.iter().enumerate() {
        let partial = template.name.rsplit('/').next().is_some_and(|name| name.starts_with('_'));
        if library && !partial {
            continue;
        }
        let file = File {
            text: template.data.shared().clone(),
            parsed: Arc::clone(&parsed),
            index,
            scope: scope.clone(),
            base_path: format!("{path}/templates"),
        };
        files.insert(format!("{path}/{}", template.name), file);
    }
    scope
}

/// An error of an execution; one that was stopped was at `at`.
fn failed(at: &str, error: gotemplate::Error) -> TemplateError {
    match error {
        gotemplate::Error::Exec(error) => match refusal(&error) {
            Some(message) => {
                TemplateError::Refused { location: error.location().to_string(), message }
            }
            None => TemplateError::Exec(error),
        },
        gotemplate::Error::Stop(stop) => match stop.reason::<OverBudget>() {
            Some(bound) => TemplateError::OverBudget { at: at.to_owned(), bound: *bound },
            None => TemplateError::Stopped { at: at.to_owned(), stop },
        },
        other => TemplateError::NotDefined(other.to_string()),
    }
}

/// What the chart says by `required` or `fail`, however deep in the error.
fn refusal(error: &gotemplate::ExecError) -> Option<String> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(refused) = error.downcast_ref::<Refused>() {
            return Some(refused.0.clone());
        }
        source = error.source();
    }
    None
}

const STRING: Param = Param::STRING;
const ANY: Param = Param::ANY;

/// The functions that execute templates, or ask the cluster.
static TABLE: &[Function<State>] = &[
    Function { name: "include", signature: Signature::new(&[STRING, ANY]), run: include },
    Function { name: "tpl", signature: Signature::new(&[STRING, ANY]), run: tpl },
    Function { name: "required", signature: Signature::new(&[STRING, ANY]), run: required },
    Function {
        name: "lookup",
        signature: Signature::new(&[STRING, STRING, STRING, STRING]),
        run: lookup,
    },
];

/// The output of a template as a value.
fn include(call: &mut Call<'_, State>, args: Args<'_>) -> Result<Value, Failure> {
    let name = args.str(0);
    let most = call.host().budget.includes;
    let count = call.host().including.entry(name.clone()).or_default();
    if *count > most {
        return Err(Failure::text(format!(
            "rendering template has a nested reference name: {name}: unable to execute template"
        )));
    }
    *count += 1;
    let output = call.execute(&args.text(0), args.get(1).clone());
    if let Some(count) = call.host().including.get_mut(&name) {
        *count -= 1;
    }
    Ok(Value::String(output?.into()))
}

/// An error inside of a text that `tpl` was given.
#[derive(Debug, thiserror::Error)]
enum TplError {
    #[error("cannot parse template {}: {error}", strconv::quote(.text))]
    Parse { text: String, error: ParseError },
    #[error("error during tpl function execution for {}: {error}", strconv::quote(.text))]
    Exec {
        text: String,
        #[source]
        error: gotemplate::Error,
    },
}

/// A text as a template over all others. What it defines, only it sees.
fn tpl(call: &mut Call<'_, State>, args: Args<'_>) -> Result<Value, Failure> {
    let text = args.text(0);
    let budget = call.host().budget;
    if text.len() > budget.tpl_text {
        return Err(over(OverBudget::TplText(budget.tpl_text)));
    }
    if call.host().tpl >= budget.tpl {
        return Err(over(OverBudget::Tpl(budget.tpl)));
    }
    call.steps(16 + text.len() as u64 / 8)?;
    // Most values that charts pass are plain texts: those need no parsing.
    if memchr::memmem::find(text.as_bytes(), b"{{").is_none() {
        call.host().text(text.len())?;
        return Ok(Value::from(without_no_value(text.into_owned())));
    }
    let mut templates = call.templates().fork();
    templates.parse_again(SET, &text).map_err(|error| {
        Failure::other(TplError::Parse { text: text.clone().into_owned(), error })
    })?;
    call.host().tpl += 1;
    let output = call.execute_in(&Arc::new(templates), SET, args.get(1).clone());
    call.host().tpl -= 1;
    match output {
        Ok(output) => {
            let text = without_no_value(text_of(output));
            call.host().text(text.len())?;
            Ok(Value::from(text))
        }
        Err(gotemplate::Error::Stop(stop)) => Err(Failure::Stop(stop)),
        Err(error) => Err(Failure::other(TplError::Exec { text: text.into_owned(), error })),
    }
}

fn required(_: &mut Call<'_, State>, args: Args<'_>) -> Result<Value, Failure> {
    match args.get(1) {
        Value::NoValue | Value::Nil => Err(Failure::other(Refused(args.text(0).into_owned()))),
        Value::String(text) if text.is_empty() => {
            Err(Failure::other(Refused(args.text(0).into_owned())))
        }
        value => Ok(value.clone()),
    }
}

fn lookup(call: &mut Call<'_, State>, args: Args<'_>) -> Result<Value, Failure> {
    let what = Lookup {
        api_version: &args.text(0),
        kind: &args.text(1),
        namespace: &args.text(2),
        name: &args.text(3),
    };
    match call.host().host.lookup(&what) {
        Ok(Some(object)) => {
            let object = from_json(&object);
            call.host().room_of(&object)?;
            Ok(object)
        }
        Ok(None) => Ok(Map::from_iter([]).into()),
        Err(error) => Err(Failure::other(error)),
    }
}
