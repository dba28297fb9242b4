//! The collector: `OTEL_EXPORTER_OTLP_ENDPOINT` and its like name it, and traces reach it over HTTP (OTLP, protobuf).

use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderName, HeaderValue, Request, Response, Uri};
use hyper::body::Bytes;
use opentelemetry::KeyValue;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::egress::Egress;
use crate::egress::http::{self as client, HttpRequest};
use crate::egress::policy::Networks;

/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time for what is left when the process ends.
const LAST: Duration = Duration::from_secs(1);
/// Names the address that takes traces.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// Names the collector; its path for traces is this.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const PATH: &str = "/v1/traces";
/// The variables that name a protocol.
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
/// The protocol that is spoken.
const PROTOCOL: &str = "http/protobuf";

/// A collector that cannot be used as it is named.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The environment asks for a protocol that is not spoken.
    #[error("{variable} is {protocol:?}: traces are sent with {PROTOCOL} only")]
    Protocol {
        /// The variable.
        variable: &'static str,
        /// Its value.
        protocol: String,
    },
    /// The exporter does not take what the environment says.
    #[error("the collector of traces cannot be used")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// The way to a collector.
#[derive(Debug)]
pub struct Collector {
    exporter: SpanExporter,
}

impl Collector {
    /// The collector that the environment names, as `variable` reads it; none without an endpoint, and with `OTEL_SDK_DISABLED`.
    ///
    /// # Errors
    /// It names one that cannot be used.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, SetupError> {
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_off =
            value("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let collector = || Some(format!("{}{PATH}", value(ENDPOINT)?.trim_end_matches('/')));
        let Some(endpoint) = value(TRACES_ENDPOINT).or_else(collector).filter(|_| !is_off) else {
            return Ok(None);
        };
        let protocol = PROTOCOLS.iter().find_map(|name| Some((*name, value(name)?)));
        if let Some((variable, protocol)) = protocol.filter(|(_, protocol)| protocol != PROTOCOL) {
            return Err(SetupError::Protocol { variable, protocol });
        }
        // Headers and times are read from the environment by the exporter itself.
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Client {
                egress: Egress::new(Networks::default(), Networks::default()),
            })
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .build()?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let mut resource = Resource::builder().with_attribute(version);
        if value("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("vela-controller");
        }
        exporter.set_resource(&resource.build());
        Ok(Some(Self { exporter }))
    }

    /// Sends what arrives until `end`, and then what is left. A trace that the collector does not take is lost.
    pub async fn follow(self, mut spans: mpsc::Receiver<Vec<SpanData>>, end: CancellationToken) {
        loop {
            tokio::select! {
                () = end.cancelled() => break,
                trace = spans.recv() => match trace {
                    Some(trace) => self.export(trace).await,
                    None => return,
                },
            }
        }
        let left = async {
            while let Ok(trace) = spans.try_recv() {
                self.export(trace).await;
            }
        };
        let _ = tokio::time::timeout(LAST, left).await;
    }

    async fn export(&self, spans: Vec<SpanData>) {
        if let Err(error) = self.exporter.export(spans).await {
            warn!(%error, "a trace is lost: the collector refused it");
        }
    }
}

/// The client of steps, without a rule about addresses: who starts the process names the collector.
#[derive(Debug)]
struct Client {
    egress: Egress,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let url: Uri = parts.uri;
        let headers: Vec<(HeaderName, HeaderValue)> =
            parts.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let request = HttpRequest {
            method: parts.method,
            url,
            headers,
            body: body.to_vec(),
            timeout: TIMEOUT,
            tls: None,
        };
        let exchange = async { client::send(client::reach(request, &self.egress).await?).await };
        let answer = tokio::time::timeout(TIMEOUT, exchange).await??;
        Ok(Response::builder().status(answer.status).body(Bytes::from(answer.body))?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use prost::Message as _;
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::metrics::Rollout;
    use crate::traces::{EndedRollout, Progress, Traces, spans_of};

    fn collector(variables: &[(&str, &str)]) -> Result<Option<Collector>, SetupError> {
        let variables: HashMap<&str, &str> = variables.iter().copied().collect();
        Collector::from_environment(|name| variables.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn the_environment_names_the_collector() {
        let endpoint = (ENDPOINT, "http://127.0.0.1:4318");
        assert!(collector(&[]).unwrap().is_none());
        assert!(collector(&[(ENDPOINT, "")]).unwrap().is_none());
        assert!(collector(&[endpoint, ("OTEL_SDK_DISABLED", "True")]).unwrap().is_none());
        assert!(collector(&[endpoint]).unwrap().is_some());
        assert!(
            collector(&[(TRACES_ENDPOINT, "http://127.0.0.1:4318/v1/traces")]).unwrap().is_some()
        );
        assert!(collector(&[endpoint, (PROTOCOLS[1], "http/protobuf")]).unwrap().is_some());
        let error = collector(&[endpoint, (PROTOCOLS[1], "grpc")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"OTEL_EXPORTER_OTLP_PROTOCOL is "grpc": traces are sent with http/protobuf only"#
        );
        collector(&[(ENDPOINT, "no address\n")]).unwrap_err();
    }

    /// Takes one request and gives its first line and body.
    async fn request(listener: TcpListener) -> (String, Vec<u8>) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        loop {
            stream.read_buf(&mut read).await.unwrap();
            let Some(end) = read.windows(4).position(|part| part == b"\r\n\r\n") else { continue };
            let head = String::from_utf8(read[..end].to_vec()).unwrap().to_lowercase();
            let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
            let length: usize = length.parse().unwrap();
            if read.len() >= end + 4 + length {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                return (head.lines().next().unwrap().to_owned(), read[end + 4..].to_vec());
            }
        }
    }

    #[tokio::test]
    async fn a_trace_arrives_also_when_the_process_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/", listener.local_addr().unwrap());
        let collector = collector(&[(ENDPOINT, &endpoint)]).unwrap().unwrap();
        let (traces, spans) = Traces::new();
        assert!(traces.is_on() && !Traces::default().is_on());
        let app = serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "shop"},
            "spec": {"components": []}}))
        .unwrap();
        let (status, progress) = (vela_api::AppStatus::default(), Progress::default());
        let now = jiff::Timestamp::UNIX_EPOCH;
        let rollout = EndedRollout {
            app: &app,
            status: &status,
            result: Rollout::Succeeded,
            began: now,
            ended: now,
            progress: &progress,
        };
        traces.send(spans_of(rollout, &[]));
        let end = CancellationToken::new();
        end.cancel();
        let ((line, body), ()) = tokio::join!(request(listener), collector.follow(spans, end));
        assert_eq!(line, "post /v1/traces http/1.1");
        let sent = ExportTraceServiceRequest::decode(&*body).unwrap();
        let of = &sent.resource_spans[0];
        let names: Vec<&str> =
            of.scope_spans.iter().flat_map(|scope| &scope.spans).map(|span| &*span.name).collect();
        assert_eq!(names, ["rollout shop/web"]);
        let resource = of.resource.as_ref().unwrap();
        let service = resource.attributes.iter().find(|one| one.key == "service.name").unwrap();
        assert!(format!("{service:?}").contains("vela-controller"), "{service:?}");
    }
}
