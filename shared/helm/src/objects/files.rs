//! `.Files`: the files of a chart that are neither templates nor its own.

use std::collections::BTreeMap;

use gotemplate::{
    Args, Failure, List, Map, Meter, Object, Param, Signature, Str, Type, Underlying, Value,
};
use serde_json::Value as Json;

use crate::chart::File;
use crate::glob::Glob;
use crate::yaml::{self, Layout};

/// `engine.files`: a map of names to bytes.
#[derive(Debug)]
pub(crate) struct Files(Map);

impl Files {
    pub(crate) fn new(files: &[File]) -> Self {
        let entry =
            |file: &File| (Str::from(file.name.as_str()), Value::Bytes(Str::from(&*file.data)));
        Self::of(files.iter().map(entry).collect())
    }

    fn of(entries: BTreeMap<Str, Value>) -> Self {
        Self(Map::of(&Type::BYTES, entries))
    }

    fn get(&self, name: &Str) -> Option<Str> {
        match self.0.get(name.as_bytes()) {
            Some(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The content of all files under their last names, as YAML; of two files of one name the later counts.
    fn yaml(
        &self,
        content: impl Fn(&Str) -> String,
        meter: &mut dyn Meter,
    ) -> Result<Value, Failure> {
        let mut map = serde_json::Map::new();
        for (path, bytes) in self.0.entries() {
            let Value::Bytes(bytes) = bytes else { continue };
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
        Underlying::Value(Value::Map(self.0.clone()))
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
                for (name, bytes) in self.0.entries() {
                    meter.steps(1 + name.len() as u64 * pattern / 64)?;
                    if glob.matches(&name.to_str_lossy()) {
                        found.insert(name, bytes);
                    }
                }
                Ok(Value::object(Self::of(found)))
            }
            "AsConfig" => self.yaml(|bytes| bytes.to_str_lossy().into_owned(), meter),
            _ => self.yaml(
                |bytes| base64::engine::general_purpose::STANDARD.encode(bytes.as_bytes()),
                meter,
            ),
        }
    }
}
