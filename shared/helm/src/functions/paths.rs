//! Paths and addresses.

use gotemplate::{Args, Function, Map, Str, Value};
use vela_gocompat::path::clean;

use super::table::{Body, Context, MAP, Result, STRING, function, text};
use crate::engine::state::State;
use crate::url::Url;

pub(super) static TABLE: &[Function<State>] = &[
    function("base", &[STRING], BASE),
    function("osBase", &[STRING], BASE),
    function("dir", &[STRING], DIR),
    function("osDir", &[STRING], DIR),
    function("clean", &[STRING], CLEAN),
    function("osClean", &[STRING], CLEAN),
    function("ext", &[STRING], EXT),
    function("osExt", &[STRING], EXT),
    function("isAbs", &[STRING], IS_ABS),
    function("osIsAbs", &[STRING], IS_ABS),
    function("urlParse", &[STRING], parse),
    function("urlJoin", &[MAP], join),
    // Names are never resolved: a render talks to nobody.
    function("getHostByName", &[STRING], |_, _| Ok(Value::from(""))),
];

const BASE: Body = |call, args| {
    let path = args.text(0);
    let name = match path.trim_end_matches('/') {
        "" if path.is_empty() => ".",
        "" => "/",
        path => path.rsplit('/').next().unwrap_or(path),
    };
    text(call, name)
};

const DIR: Body = |call, args| {
    let path = args.text(0);
    let end = path.rfind('/').map_or(0, |at| at + 1);
    text(call, clean(path.get(..end).unwrap_or_default()))
};

const CLEAN: Body = |call, args| text(call, clean(&args.text(0)));

const EXT: Body = |call, args| {
    let path = args.text(0);
    let name = path.rsplit('/').next().unwrap_or_default();
    text(call, name.rfind('.').and_then(|at| name.get(at..)).unwrap_or_default())
};

const IS_ABS: Body = |_, args| Ok(args.text(0).starts_with('/').into());

fn parse(call: &mut Context<'_>, args: Args<'_>) -> Result {
    let from = args.text(0);
    call.host().text(from.len().saturating_mul(2))?;
    let url = Url::parse(&from).map_err(|error| {
        let quoted = vela_gocompat::strconv::quote(&from);
        gotemplate::Failure::text(format!("unable to parse url: parse {quoted}: {error}"))
    })?;
    let fields = [
        ("scheme", url.scheme.clone()),
        ("host", url.host.clone()),
        ("hostname", url.hostname().to_owned()),
        ("path", url.path.clone()),
        ("query", url.query.clone()),
        ("opaque", url.opaque.clone()),
        ("fragment", url.fragment.clone()),
        ("userinfo", url.user.map(|user| user.to_string()).unwrap_or_default()),
    ];
    Ok(Map::from_iter(fields.map(|(key, value)| (Str::from(key), Value::from(value)))).into())
}

fn join(call: &mut Context<'_>, args: Args<'_>) -> Result {
    let map = args.map(0);
    let part = |key: &str| match map.get(key) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.to_string()),
        Some(Value::NoValue | Value::Nil) => Err(super::table::nil_pointer()),
        Some(other) => Err(gotemplate::Failure::text(format!(
            "unable to parse {key} key, must be of type string, but {} found",
            other.kind()
        ))),
    };
    let mut url = Url {
        scheme: part("scheme")?,
        host: part("host")?,
        path: part("path")?,
        query: part("query")?,
        opaque: part("opaque")?,
        fragment: part("fragment")?,
        user: None,
    };
    let userinfo = part("userinfo")?;
    if !userinfo.is_empty() {
        let around = Url::parse(&format!("proto://{userinfo}@host")).map_err(|error| {
            gotemplate::Failure::text(format!("unable to parse userinfo in dict: {error}"))
        })?;
        url.user = around.user;
    }
    text(call, url.to_string())
}
