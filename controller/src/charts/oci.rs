//! Charts in OCI registries: tags, manifests and blobs, with the exchange of user and password for a token where the registry
//! wants that.

use http::header::{LINK, WWW_AUTHENTICATE};
use http::{HeaderValue, Uri};
use serde_json::Value;
use sha2::{Digest, Sha256};
use vela_helm::index;

use super::FetchError;
use super::auth::{Authorization, Credentials, hex};
use super::download::{self, Get, Got, Rules, join, origin, shown};
use vela_helm::request::source::{is_digest, is_tag};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const LAYERS: [&str; 2] =
    ["application/vnd.cncf.helm.chart.content.v1.tar+gzip", "application/tar+gzip"];
/// Bytes of a manifest, a page of tags or a token.
const MAX_SMALL: usize = 4 << 20;
/// Pages of tags.
const MAX_PAGES: usize = 50;

/// A chart in a registry.
pub(super) struct Registry<'a> {
    pub(super) rules: &'a Rules,
    pub(super) host: &'a str,
    pub(super) repository: &'a str,
    pub(super) credentials: Option<&'a Credentials>,
    /// What the registry wants to see, once it said so.
    pub(super) authorization: Option<HeaderValue>,
}

/// What a chart's manifest says.
struct Manifest {
    layer: String,
    digest: String,
}

impl Registry<'_> {
    /// The bytes of a chart, and the version that they are.
    pub(super) async fn pull(
        &mut self,
        tag: Option<&str>,
        digest: Option<&str>,
        wanted: &str,
        most: usize,
    ) -> Result<(String, Vec<u8>), FetchError> {
        let (reference, version) = match (digest, tag) {
            (Some(digest), _) => (digest.to_owned(), wanted.to_owned()),
            (None, Some(tag)) if wanted.is_empty() => (tag.to_owned(), version_of(tag)),
            _ => {
                let tag = self.tag(wanted).await?;
                let version = version_of(&tag);
                (tag, version)
            }
        };
        let manifest = self.manifest(&reference).await?;
        if let Some(wanted) = digest.filter(|wanted| **wanted != manifest.digest) {
            return Err(self.differs(wanted, manifest.digest));
        }
        let got = self.ask(&format!("blobs/{}", manifest.layer), "*/*", most).await?;
        let got = self.found(got)?;
        let found = format!("sha256:{}", hex(&Sha256::digest(&got.body)));
        if found != manifest.layer {
            return Err(self.differs(&manifest.layer, found));
        }
        Ok((version, got.body))
    }

    /// The tag that is meant: an exact version is one, anything else is found among all tags.
    async fn tag(&mut self, wanted: &str) -> Result<String, FetchError> {
        let tag = wanted.replace('+', "_");
        if index::is_exact(wanted) && is_tag(&tag) {
            return Ok(tag);
        }
        let tags = self.tags().await?;
        if tags.contains(&tag) {
            return Ok(tag);
        }
        let missing =
            || FetchError::NoVersion { reference: self.shown(), wanted: wanted.to_owned() };
        let versions: Vec<String> = tags.iter().map(|tag| version_of(tag)).collect();
        let chosen = index::choose(versions.iter().map(String::as_str), wanted);
        let chosen = chosen
            .map_err(|error| FetchError::Index { repository: self.shown(), error: error.into() })?;
        let tag = chosen.ok_or_else(missing)?.replace('+', "_");
        if is_tag(&tag) { Ok(tag) } else { Err(missing()) }
    }

    async fn tags(&mut self) -> Result<Vec<String>, FetchError> {
        let mut out = Vec::new();
        let mut path = "tags/list?n=1000".to_owned();
        for _ in 0..MAX_PAGES {
            let got = self.ask(&path, "application/json", MAX_SMALL).await?;
            let got = self.found(got)?;
            let page = self.json(&got.body)?;
            let tags = page.get("tags").and_then(Value::as_array).into_iter().flatten();
            out.extend(tags.filter_map(Value::as_str).map(str::to_owned));
            let next = got.headers.get(LINK).and_then(|link| link.to_str().ok());
            let next = next.and_then(|link| link.split_once('<')?.1.split_once('>'));
            let Some((next, _)) = next else { break };
            let next = join(&got.url, next)?;
            if origin(&next) != origin(&got.url) {
                break;
            }
            let Some(query) = next.query() else { break };
            path = format!("tags/list?{query}");
        }
        Ok(out)
    }

    async fn manifest(&mut self, reference: &str) -> Result<Manifest, FetchError> {
        let got = self.ask(&format!("manifests/{reference}"), MANIFEST, MAX_SMALL).await?;
        let got = self.found(got)?;
        let digest = format!("sha256:{}", hex(&Sha256::digest(&got.body)));
        let manifest = self.json(&got.body)?;
        let text = |value: &Value, key: &str| {
            value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let config = manifest.get("config").map(|config| text(config, "mediaType"));
        if config.as_deref() != Some(CONFIG) {
            return Err(self.bad("what is there is not a chart"));
        }
        let layers = manifest.get("layers").and_then(Value::as_array).into_iter().flatten();
        let mut layers = layers.filter(|layer| LAYERS.contains(&text(layer, "mediaType").as_str()));
        let layer = layers.next().map(|layer| text(layer, "digest"));
        match layer.filter(|digest| is_digest(digest)) {
            Some(layer) => Ok(Manifest { layer, digest }),
            None => Err(self.bad("the manifest has no layer with a chart")),
        }
    }

    /// One request, and once more with what the registry asks for.
    async fn ask(&mut self, path: &str, accept: &str, most: usize) -> Result<Got, FetchError> {
        let plain = self.credentials.is_some_and(|credentials| credentials.plain_http);
        let scheme = if plain { "http" } else { "https" };
        let text = format!("{scheme}://{}/v2/{}/{path}", api(self.host), self.repository);
        let url: Uri = text.parse().map_err(|error: http::uri::InvalidUri| FetchError::Url {
            url: text.clone(),
            reason: error.to_string(),
        })?;
        let request = |authorization: Option<HeaderValue>| Get {
            accept,
            authorization,
            with_authorization: false,
            ..Get::new(url.clone(), most).with(self.credentials)
        };
        let got = download::get(self.rules, &request(self.authorization.clone())).await?;
        if got.status != 401 || origin(&got.url) != origin(&url) {
            return Ok(got);
        }
        let Some(challenge) = got.headers.get(WWW_AUTHENTICATE).and_then(|it| it.to_str().ok())
        else {
            return Ok(got);
        };
        let Some(authorization) = self.answer(challenge, &url).await? else { return Ok(got) };
        self.authorization = Some(authorization.clone());
        download::get(self.rules, &request(Some(authorization))).await
    }

    /// What a challenge is answered with; `None`: there is nothing to answer with.
    async fn answer(&self, challenge: &str, from: &Uri) -> Result<Option<HeaderValue>, FetchError> {
        let own = self.credentials.and_then(|credentials| credentials.authorization.as_ref());
        let (scheme, rest) = challenge.split_once(' ').unwrap_or((challenge, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Ok(own.and_then(Authorization::header));
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Ok(None);
        }
        let parameters = parameters(rest);
        let find =
            |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, v)| v.as_str());
        let Some(realm) = find("realm") else { return Ok(None) };
        let realm = join(from, realm)?;
        if realm.scheme_str() != from.scheme_str() && realm.scheme_str() != Some("https") {
            return Err(FetchError::PlainHttp(shown(&realm)));
        }
        let scope = format!("repository:{}:pull", self.repository);
        let mut query = format!("scope={}", escaped(&scope));
        if let Some(service) = find("service") {
            query = format!("service={}&{query}", escaped(service));
        }
        let separator = if realm.query().is_some() { '&' } else { '?' };
        let url = join(from, &format!("{realm}{separator}{query}"))?;
        // User and password go to the service that this registry names; its TLS material only to itself.
        let is_home = origin(&url) == origin(from);
        let get = Get {
            accept: "application/json",
            authorization: own.and_then(Authorization::header),
            with_authorization: false,
            ..Get::new(url, MAX_SMALL).with(self.credentials.filter(|_| is_home))
        };
        let got = self.found(download::get(self.rules, &get).await?)?;
        let answer = self.json(&got.body)?;
        let token = ["token", "access_token"].iter().find_map(|key| answer.get(key)?.as_str());
        let token = token.ok_or_else(|| self.bad("the token service gives no token"))?;
        let header = Authorization::Bearer(token.to_owned()).header();
        header.map(Some).ok_or_else(|| self.bad("the token service gives no token"))
    }

    fn found(&self, got: Got) -> Result<Got, FetchError> {
        match got.status {
            200 => Ok(got),
            status => Err(FetchError::Status { url: shown(&got.url), status }),
        }
    }

    fn json(&self, bytes: &[u8]) -> Result<Value, FetchError> {
        serde_json::from_slice(bytes).map_err(|_| self.bad("the registry does not answer in JSON"))
    }

    fn bad(&self, reason: &'static str) -> FetchError {
        FetchError::Registry { reference: self.shown(), reason }
    }

    fn differs(&self, wanted: &str, found: String) -> FetchError {
        FetchError::Digest { url: self.shown(), wanted: wanted.to_owned(), found }
    }

    fn shown(&self) -> String {
        format!("oci://{}/{}", self.host, self.repository)
    }
}

/// Tags have no plus sign: versions with metadata are written with an underscore.
fn version_of(tag: &str) -> String {
    tag.replace('_', "+")
}

/// Where the interface of a registry is.
fn api(host: &str) -> &str {
    match host {
        "docker.io" | "index.docker.io" => "registry-1.docker.io",
        other => other,
    }
}

/// The parameters of a challenge: `key="value"`, separated by commas.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while let Some((key, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').map_or((after, ""), |(value, left)| (value, left)),
        };
        out.push((key.trim().to_ascii_lowercase(), value.trim().to_owned()));
        rest = left.trim_start_matches([',', ' ']);
    }
    out
}

/// A value within a query.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&hex(&[byte]).to_uppercase());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let text = r#"realm="https://auth.example/token?a=b",service="r.example",scope="x,y" , error=invalid"#;
        let pairs = parameters(text);
        let shown: Vec<String> =
            pairs.iter().map(|(key, value)| format!("{key}:{value}")).collect();
        assert_eq!(
            shown,
            [
                "realm:https://auth.example/token?a=b",
                "service:r.example",
                "scope:x,y",
                "error:invalid"
            ]
        );
        assert!(parameters("").is_empty() && parameters("realm").is_empty());
        assert_eq!(parameters(r#"realm="open"#), [("realm".to_owned(), "open".to_owned())]);
        assert_eq!(escaped("repository:a/b:pull"), "repository%3Aa%2Fb%3Apull");
    }
}
