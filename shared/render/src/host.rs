//! Calls that a template may make while it is evaluated: provider functions and HTTP.

use crate::{json, messages};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cue::{Answer, Call, Evaluation, Value};
use serde_json::Value as Json;

/// Why a function that a template called has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody sends requests here.
    #[error("{}", messages::no_http_here())]
    NoHttp,
    /// A text that is no base64.
    #[error(transparent)]
    Base64(#[from] base64::DecodeError),
    /// What the host says.
    #[error(transparent)]
    Host(Box<dyn std::error::Error + Send + Sync>),
}

/// The outside world of a template. Rendering itself does no input and output: whoever renders
/// decides what is answered, refused or only pretended.
pub trait RenderHost {
    /// A provider function: `helm`/`render`, `kube`/`get` and so on. `None`: there is no such
    /// provider.
    ///
    /// # Errors
    /// Why the function failed.
    fn call(
        &mut self,
        provider: &str,
        function: &str,
        params: &Json,
    ) -> Option<Result<Json, CallError>>;

    /// A trait's `processing.http`. The answer is a JSON object.
    ///
    /// # Errors
    /// Why the request failed.
    fn http(&mut self, request: &Json) -> Result<Json, CallError>;
}

/// A host that answers nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl RenderHost for NoHost {
    fn call(&mut self, _: &str, _: &str, _: &Json) -> Option<Result<Json, CallError>> {
        None
    }

    fn http(&mut self, _: &Json) -> Result<Json, CallError> {
        Err(CallError::NoHttp)
    }
}

/// The host of admission: whatever is asked, nothing is done and nothing is known.
#[derive(Default)]
pub(crate) struct DryHost {
    /// The providers that were asked, each once.
    pub(crate) asked: Vec<String>,
    /// The parameters of the last call for a chart.
    pub(crate) chart: Option<Json>,
}

impl DryHost {
    fn note(&mut self, provider: &str) {
        if !self.asked.iter().any(|known| known == provider) {
            self.asked.push(provider.to_owned());
        }
    }
}

impl RenderHost for DryHost {
    fn call(
        &mut self,
        provider: &str,
        name: &str,
        params: &Json,
    ) -> Option<Result<Json, CallError>> {
        if !KNOWN.contains(&provider) {
            return None;
        }
        self.note(provider);
        if (provider, name) == ("helm", "render") {
            self.chart = Some(params.clone());
        }
        Some(Ok(Json::Object(serde_json::Map::new())))
    }

    fn http(&mut self, _: &Json) -> Result<Json, CallError> {
        self.note("http");
        Ok(Json::Object(serde_json::Map::new()))
    }
}

/// Answers the calls of one evaluation: pure functions here, all others by the host.
pub(crate) struct Providers<'a> {
    host: &'a mut dyn RenderHost,
    error: Option<String>,
}

impl<'a> Providers<'a> {
    pub(crate) fn new(host: &'a mut dyn RenderHost) -> Self {
        Self { host, error: None }
    }

    /// The error that ended the evaluation, if one did.
    pub(crate) fn into_error(self) -> Option<String> {
        self.error
    }

    fn fail(&mut self, error: String) -> Answer {
        self.error = Some(error);
        Answer::Stop
    }
}

impl cue::Host for Providers<'_> {
    fn call(&mut self, evaluation: &mut Evaluation, call: &Call) -> Answer {
        let path = call.path.iter().map(|l| messages::label(l)).collect::<Vec<_>>().join(".");
        let params = match evaluation.field(call.node, "$params") {
            None => Value::empty_struct(),
            Some(node) => match evaluation.export(node) {
                Ok(params) => params,
                Err(errors) => {
                    return self.fail(messages::function_call(&path, &errors));
                }
            },
        };
        let params = json::from_cue(&params);
        let answer = match builtin(&call.provider, &call.name, &params) {
            Some(answer) => Some(answer),
            None => self.host.call(&call.provider, &call.name, &params),
        };
        match answer {
            None if KNOWN.contains(&call.provider.as_str()) => {
                let why = messages::function_missing(&call.name, &call.provider);
                self.fail(why)
            }
            None => self.fail(messages::provider_missing(&call.provider)),
            Some(Err(why)) => self.fail(messages::function_call(&path, &why)),
            Some(Ok(returns)) => {
                Answer::Unify([("$returns", json::to_cue(&returns))].into_iter().collect())
            }
        }
    }
}

/// The providers of the packages templates may import.
const KNOWN: [&str; 6] = ["config", "helm", "base64", "http", "kube", "cue"];

/// Functions without side effects.
fn builtin(provider: &str, function: &str, params: &Json) -> Option<Result<Json, CallError>> {
    let text = params.as_str().unwrap_or_default();
    match (provider, function) {
        ("base64", "encode") => Some(Ok(STANDARD.encode(text).into())),
        ("base64", "decode") => Some(
            STANDARD
                .decode(text)
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned().into())
                .map_err(CallError::from),
        ),
        _ => None,
    }
}
