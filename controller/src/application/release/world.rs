//! The inputs of a chart's templates: the revision's time, previously generated values, and lookups.
//!
//! Templates are evaluated without waiting for anybody: what they look up is noted, read in between, and the chart rendered
//! once more with the answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use vela_helm::{Algorithm, Host, KeyError, Lookup, LookupError, PrivateKey};

use crate::messages;

/// Objects that one render may look up.
const MAX_LOOKUPS: usize = 100;

/// What was looked up: group and version, kind, namespace, name.
pub(super) type Asked = (String, String, String, String);
/// What the cluster answers.
pub(super) type Answers = BTreeMap<Asked, Result<Option<Value>, vela_cluster::Error>>;

/// What a release's random texts and keys come from. Kept with the release, so that a password is the same in the next
/// revision as long as the chart asks for the same things in the same order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Materials {
    seed: String,
    keys: Vec<(Algorithm, String)>,
}

impl Materials {
    /// Those of the revision before, or new ones.
    pub(super) fn of(text: Option<&str>) -> Self {
        let known = text.and_then(|text| serde_json::from_str::<Self>(text).ok());
        // Without a seed of before, a new one is drawn.
        known.filter(|known| !known.seed.is_empty()).unwrap_or_else(|| {
            let mut seed = [0; 32];
            // A system that gives no randomness gives no keys either.
            let _ = aws_lc_rs::rand::fill(&mut seed);
            Self { seed: BASE64.encode(seed), keys: Vec::new() }
        })
    }

    /// As they are stored.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What a render noted.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// What it looked up without an answer.
    pub(super) asked: Vec<Asked>,
    /// The keys it used.
    keys: Vec<(Algorithm, String)>,
    /// Something random was used.
    is_random: bool,
}

impl Noted {
    /// What is kept for the next revision; empty if nothing was generated.
    pub(super) fn materials(&self, before: &Materials) -> String {
        // Most charts generate nothing, and have nothing to keep.
        if !self.is_random && self.keys.is_empty() {
            return String::new();
        }
        Materials { seed: before.seed.clone(), keys: self.keys.clone() }.text()
    }
}

/// The world of one render.
#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) end: Option<Instant>,
    pub(super) materials: Materials,
    pub(super) answers: Arc<Answers>,
    pub(super) noted: Arc<Mutex<Noted>>,
    /// Bytes that were drawn.
    pub(super) drawn: u64,
}

impl Host for World {
    fn now(&mut self) -> Timestamp {
        self.now
    }

    fn random(&mut self, bytes: &mut [u8]) {
        self.noted.lock().is_random = true;
        // A stream of hashes over the seed: the same requests in the same order give the same
        // bytes.
        for block in bytes.chunks_mut(32) {
            let mut hasher = Sha256::new();
            hasher.update(self.materials.seed.as_bytes());
            hasher.update(self.drawn.to_be_bytes());
            self.drawn = self.drawn.wrapping_add(1);
            let hash = hasher.finalize();
            for (byte, drawn) in block.iter_mut().zip(hash) {
                *byte = drawn;
            }
        }
    }

    fn is_over(&mut self) -> bool {
        self.end.is_some_and(|end| Instant::now() > end)
    }

    fn private_key(&mut self, algorithm: Algorithm) -> Result<PrivateKey, KeyError> {
        let mut noted = self.noted.lock();
        // By position: the third key that a chart asks for is the third that it had.
        let known = self.materials.keys.get(noted.keys.len());
        let known = known.filter(|(kind, _)| *kind == algorithm);
        let known = known.and_then(|(_, der)| BASE64.decode(der).ok());
        let key = match known {
            Some(der) => PrivateKey::restored(algorithm, der),
            None => PrivateKey::generate(algorithm)?,
        };
        noted.keys.push((algorithm, BASE64.encode(key.der())));
        Ok(key)
    }

    fn lookup(&mut self, what: &Lookup<'_>) -> Result<Option<Value>, LookupError> {
        let key = (
            what.api_version.to_owned(),
            what.kind.to_owned(),
            what.namespace.to_owned(),
            what.name.to_owned(),
        );
        if let Some(answer) = self.answers.get(&key) {
            return answer.clone().map_err(|error| LookupError(error.to_string()));
        }
        let mut noted = self.noted.lock();
        // Bounded over all rounds: each new answer could lead to further lookups.
        if self.answers.len() + noted.asked.len() >= MAX_LOOKUPS {
            return Err(LookupError(messages::too_many_lookups(MAX_LOOKUPS)));
        }
        if !noted.asked.contains(&key) {
            noted.asked.push(key);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(materials: Materials) -> World {
        World {
            now: Timestamp::UNIX_EPOCH,
            end: None,
            materials,
            answers: Arc::default(),
            noted: Arc::default(),
            drawn: 0,
        }
    }

    #[test]
    fn what_was_generated_stays() {
        let first = Materials::of(None);
        let mut one = world(first.clone());
        let mut bytes = [[0; 40]; 2];
        one.random(&mut bytes[0]);
        let key = one.private_key(Algorithm::EcdsaP256).unwrap();
        let kept = one.noted.lock().materials(&first);
        let mut two = world(Materials::of(Some(&kept)));
        two.random(&mut bytes[1]);
        assert_eq!(bytes[0], bytes[1]);
        assert_eq!(two.private_key(Algorithm::EcdsaP256).unwrap().der(), key.der());
        assert_ne!(two.private_key(Algorithm::EcdsaP256).unwrap().der(), key.der());
        let mut other = world(Materials::of(Some("{}")));
        other.random(&mut bytes[1]);
        assert_ne!(bytes[0], bytes[1]);
        assert_eq!(Noted::default().materials(&first), "");
    }

    #[test]
    fn what_is_looked_up_is_noted_until_it_is_known() {
        let what = Lookup { api_version: "v1", kind: "Secret", namespace: "n", name: "s" };
        let mut one = world(Materials::default());
        assert_eq!(one.lookup(&what).unwrap(), None);
        assert_eq!(one.lookup(&what).unwrap(), None);
        let asked = one.noted.lock().asked.clone();
        assert_eq!(asked.len(), 1);
        let answers = [(asked[0].clone(), Ok(Some(serde_json::json!({"a": 1}))))];
        one.answers = Arc::new(answers.into_iter().collect());
        assert!(one.lookup(&what).unwrap().is_some());
        for n in 0..MAX_LOOKUPS {
            let name = n.to_string();
            let _ = one.lookup(&Lookup { name: &name, ..what });
        }
        assert!(one.lookup(&Lookup { name: "more", ..what }).is_err());
    }
}
