//! `.Files`: the files of a chart that are neither templates nor its own.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use gotemplate::{
    Args, Failure, List, Map, Meter, Object, Param, Signature, Str, Type, Underlying, Value,
};
use serde_json::Value as Json;

use crate::chart::File;
use crate::glob::Glob;
use crate::yaml::{self, Layout};

/// `engine.files`: a map of names to bytes, which are those of the chart.
#[derive(Debug)]
pub(crate) struct Files {
    all: Arc<[File]>,
    /// Which files these are, in order of their names; of two of one name the later.
    chosen: OnceCell<BTreeMap<Str, usize>>,
    map: OnceCell<Map>,
}

impl Files {
    pub(crate) fn new(files: &Arc<[File]>) -> Self {
        Self { all: Arc::clone(files), chosen: OnceCell::new(), map: OnceCell::new() }
    }

    fn chosen(&self) -> &BTreeMap<Str, usize> {
        self.chosen.get_or_init(|| {
            let names = self.all.iter().enumerate();
            names.map(|(at, file)| (Str::from(file.name.as_str()), at)).collect()
        })
    }

    fn content(&self, at: usize) -> Str {
        self.all.get(at).map_or_else(Str::new, |file| file.data.shared().clone())
    }

    fn get(&self, name: &Str) -> Option<Str> {
        self.chosen().get(name).map(|at| self.content(*at))
    }

    fn map(&self) -> Map {
        let entry = |(name, at): (&Str, &usize)| (name.clone(), Value::Bytes(self.content(*at)));
        let map = || Map::of(&Type::BYTES, self.chosen().iter().map(entry).collect());
        self.map.get_or_init(map).clone()
    }

    /// The content of all files under their last names, as YAML; of two files of one name the later counts.
    fn yaml(
        &self,
        content: impl Fn(&Str) -> String,
        meter: &mut dyn Meter,
    ) -> Result<Value, Failure> {
        let mut map = serde_json::Map::new();
        for (path, at) in self.chosen() {
            let bytes = self.content(*at);
            meter.room(bytes.len() as u64 * 2)?;
            let path = path.to_str_lossy();
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            map.insert(name, Json::String(content(&bytes)));
        }
        let mut text = yaml::write(&Json::Object(map), Layout::Compact);
        text.pop();
        Ok(Value::from(text))
    }
}

impl Object for Files {
    fn type_of(&self) -> Type {
        Type::Named("engine.files")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Value(Value::Map(self.map()))
    }

    fn method(&self, name: &str) -> Option<Signature> {
        Some(match name {
            "Get" | "GetBytes" | "Glob" | "Lines" => Signature::new(&[Param::STRING]),
            "AsConfig" | "AsSecrets" => Signature::new(&[]),
            _ => return None,
        })
    }

    fn call(&self, name: &str, args: Args<'_>, meter: &mut dyn Meter) -> Result<Value, Failure> {
        use base64::Engine as _;
        let file = || self.get(&args.str(0));
        match name {
            "Get" => Ok(Value::String(file().unwrap_or_default())),
            "GetBytes" => Ok(Value::Bytes(file().unwrap_or_default())),
            "Lines" => {
                let Some(content) = file() else { return Ok(List::strings([""; 0]).into()) };
                let bytes = content.as_bytes();
                if bytes.is_empty() {
                    return Err(Failure::text("runtime error: index out of range [-1]"));
                }
                meter.room(bytes.len() as u64 * 2)?;
                let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
                Ok(List::strings(body.split(|byte| *byte == b'\n')).into())
            }
            "Glob" => {
                let glob = Glob::new(&args.text(0));
                let pattern = args.str(0).len() as u64 + 1;
                let mut found = BTreeMap::new();
                for (name, at) in self.chosen() {
                    meter.steps(1 + name.len() as u64 * pattern / 64)?;
                    if glob.matches(&name.to_str_lossy()) {
                        found.insert(name.clone(), *at);
                    }
                }
                let all = Arc::clone(&self.all);
                Ok(Value::object(Self { all, chosen: found.into(), map: OnceCell::new() }))
            }
            "AsConfig" => self.yaml(|bytes| bytes.to_str_lossy().into_owned(), meter),
            _ => self.yaml(
                |bytes| base64::engine::general_purpose::STANDARD.encode(bytes.as_bytes()),
                meter,
            ),
        }
    }
}
