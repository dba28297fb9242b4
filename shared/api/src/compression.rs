//! Compressed storage of trackers and revisions (`util/compression` of kubevela/pkg).
//!
//! The stored object carries base64 of the compressed JSON in `compression.data`. Reading puts the
//! content back into the normal fields and empties `data` but keeps `type`, so that the next write
//! compresses again.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vela_api_derive::Crd;
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::zstd_safe;

use crate::omit::zero;
use crate::resource_tracker::ManagedResource;
use crate::revision::ApplicationRevisionSpec;
use crate::{ApplicationRevision, ResourceTracker};

/// The most a payload may expand to. etcd holds 1.5 MiB; zstd of text rarely exceeds a factor of
/// 50; a bomb does.
pub const MAX_EXPANDED: u64 = 64 << 20;

/// Beyond this factor a claimed length is not believed: memory grows with what is really there.
const MAX_RATIO: usize = 1000;

/// The `compression` field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Crd)]
#[serde(rename_all = "camelCase", default)]
pub struct Compression {
    /// Algorithm: empty, `gzip` or `zstd`.
    #[serde(rename = "type", skip_serializing_if = "zero")]
    pub type_: String,
    /// Base64 of the compressed JSON.
    #[serde(skip_serializing_if = "zero")]
    pub data: String,
}

/// A known algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Stored as it is.
    #[default]
    None,
    /// gzip, default level.
    Gzip,
    /// zstd, default speed.
    Zstd,
}

impl Algorithm {
    /// The name in `compression.type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// Reads the name.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for any other name.
    pub fn parse(name: &str) -> Result<Self, Error> {
        match name {
            "" => Ok(Self::None),
            "gzip" => Ok(Self::Gzip),
            "zstd" => Ok(Self::Zstd),
            other => Err(Error::Unsupported(other.to_owned())),
        }
    }
}

/// Why a payload cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Unknown algorithm.
    #[error("unsupported compression type: {0}")]
    Unsupported(String),
    /// Not base64.
    #[error("compressed data is not base64")]
    Base64(#[from] base64::DecodeError),
    /// The stream is damaged.
    #[error("compressed data is damaged")]
    Stream(#[from] std::io::Error),
    /// It expands to more than [`MAX_EXPANDED`].
    #[error("compressed data expands to more than {} MiB", MAX_EXPANDED >> 20)]
    TooLarge,
    /// The content has another shape.
    #[error("compressed data has unexpected content")]
    Content(#[from] serde_json::Error),
}

/// Compresses bytes into text.
///
/// # Errors
/// The compressor fails.
pub fn compress(algorithm: Algorithm, bytes: &[u8]) -> Result<String, Error> {
    let packed = match algorithm {
        Algorithm::None => bytes.to_vec(),
        Algorithm::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bytes)?;
            encoder.finish()?
        }
        Algorithm::Zstd => zstd_compress(bytes, zstd::DEFAULT_COMPRESSION_LEVEL)?,
    };
    Ok(BASE64.encode(packed))
}

/// Expands text into bytes.
///
/// # Errors
/// The text is damaged or expands beyond [`MAX_EXPANDED`].
pub fn expand(algorithm: Algorithm, text: &str) -> Result<Vec<u8>, Error> {
    let packed = BASE64.decode(text)?;
    match algorithm {
        Algorithm::None => Ok(packed),
        Algorithm::Gzip => read_bounded(GzDecoder::new(packed.as_slice())),
        Algorithm::Zstd => zstd_expand(&packed),
    }
}

/// What texts have in common that stay in memory: an object of each kind of which there are many. A text is small for a
/// compressor that begins with an empty table; with this one it takes half as much.
const COMMON: &[u8] = include_bytes!("compression/common.jsonl");

/// For speed: what is packed is read often.
const LEVEL_IN_MEMORY: i32 = 1;

static COMMON_ENCODED: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(COMMON, LEVEL_IN_MEMORY));
static COMMON_DECODED: LazyLock<DecoderDictionary<'static>> =
    LazyLock::new(|| DecoderDictionary::copy(COMMON));

thread_local! {
    static PACKER: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Makes bytes small that stay in the memory of this process: no other program can read them.
///
/// # Errors
/// The compressor fails.
pub fn pack(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    PACKER.with_borrow_mut(|kept| {
        let packer = match kept {
            Some(packer) => packer,
            None => kept.insert(Compressor::with_prepared_dictionary(&COMMON_ENCODED)?),
        };
        Ok(packer.compress(bytes)?)
    })
}

/// What [`pack`] made small.
///
/// # Errors
/// The bytes are damaged.
pub fn unpack(packed: &[u8]) -> Result<Vec<u8>, Error> {
    let length = zstd_safe::get_frame_content_size(packed).ok().flatten().unwrap_or_default();
    let length = bounded(length)?;
    UNPACKER.with_borrow_mut(|kept| {
        let unpacker = match kept {
            Some(unpacker) => unpacker,
            None => kept.insert(Decompressor::with_prepared_dictionary(&COMMON_DECODED)?),
        };
        Ok(unpacker.decompress(packed, length)?)
    })
}

thread_local! {
    // The tables of zstd are larger than what is compressed here: each thread keeps its own.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// In one piece: a stream of unknown length takes megabytes of tables.
fn zstd_compress(bytes: &[u8], level: i32) -> Result<Vec<u8>, Error> {
    COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = match kept {
            Some(compressor) => compressor,
            None => kept.insert(Compressor::new(level)?),
        };
        compressor.set_compression_level(level)?;
        Ok(compressor.compress(bytes)?)
    })
}

/// The length that a frame claims, if it is one that may be expanded.
fn bounded(length: u64) -> Result<usize, Error> {
    let length = usize::try_from(length).ok().filter(|length| *length as u64 <= MAX_EXPANDED);
    length.ok_or(Error::TooLarge)
}

fn zstd_expand(packed: &[u8]) -> Result<Vec<u8>, Error> {
    // Go writes the length only of what it compresses in one piece. A length is a claim: what is longer fails.
    let Ok(Some(length)) = zstd_safe::get_frame_content_size(packed) else {
        return read_bounded(zstd::stream::read::Decoder::new(packed)?);
    };
    let length = bounded(length)?;
    if packed.len().saturating_mul(MAX_RATIO) < length {
        return read_bounded(zstd::stream::read::Decoder::new(packed)?);
    }
    let expanded = DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::new()?),
        };
        decompressor.decompress(packed, length)
    });
    // There may be several frames.
    expanded.or_else(|_| read_bounded(zstd::stream::read::Decoder::new(packed)?))
}

fn read_bounded(reader: impl Read) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    reader.take(MAX_EXPANDED + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_EXPANDED { Err(Error::TooLarge) } else { Ok(bytes) }
}

impl ResourceTracker {
    /// Puts compressed content back into the fields; the type stays.
    ///
    /// # Errors
    /// The payload cannot be read.
    pub fn expand(&mut self) -> Result<(), Error> {
        let algorithm = Algorithm::parse(&self.spec.compression.type_)?;
        if algorithm == Algorithm::None || self.spec.compression.data.is_empty() {
            return Ok(());
        }
        let bytes = expand(algorithm, &self.spec.compression.data)?;
        // Go writes a nil slice as null.
        self.spec.managed_resources =
            serde_json::from_slice::<Option<Vec<ManagedResource>>>(&bytes)?.unwrap_or_default();
        self.spec.compression.data.clear();
        Ok(())
    }

    /// The object as it is stored under its compression type.
    ///
    /// # Errors
    /// The type is unknown or the compressor fails.
    pub fn to_stored(&self) -> Result<Self, Error> {
        let algorithm = Algorithm::parse(&self.spec.compression.type_)?;
        let mut stored = self.clone();
        if algorithm != Algorithm::None {
            let bytes = vela_gocompat::json::to_vec(&self.spec.managed_resources)?;
            stored.spec.compression.data = compress(algorithm, &bytes)?;
            stored.spec.managed_resources.clear();
        }
        Ok(stored)
    }
}

impl ApplicationRevision {
    /// Puts compressed content back into the fields; the type stays.
    ///
    /// # Errors
    /// The payload cannot be read.
    pub fn expand(&mut self) -> Result<(), Error> {
        let algorithm = Algorithm::parse(&self.spec.compression.type_)?;
        if algorithm == Algorithm::None || self.spec.compression.data.is_empty() {
            return Ok(());
        }
        let bytes = expand(algorithm, &self.spec.compression.data)?;
        let mut spec: ApplicationRevisionSpec = serde_json::from_slice(&bytes)?;
        spec.compression = Compression {
            type_: std::mem::take(&mut self.spec.compression.type_),
            data: String::new(),
        };
        self.spec = spec;
        Ok(())
    }

    /// The object as it is stored under its compression type: only a stub of the Application
    /// remains, because the schema requires it.
    ///
    /// # Errors
    /// The type is unknown or the compressor fails.
    pub fn to_stored(&self) -> Result<Self, Error> {
        let algorithm = Algorithm::parse(&self.spec.compression.type_)?;
        if algorithm == Algorithm::None {
            return Ok(self.clone());
        }
        let mut content = serde_json::to_value(&self.spec)?;
        if let Value::Object(fields) = &mut content {
            fields.remove("compression");
        }
        let bytes = vela_gocompat::json::to_vec(&content)?;
        Ok(Self {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            metadata: self.metadata.clone(),
            spec: ApplicationRevisionSpec {
                compression: Compression {
                    type_: self.spec.compression.type_.clone(),
                    data: compress(algorithm, &bytes)?,
                },
                ..Default::default()
            },
            status: self.status.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Payloads as Go writes them: klauspost/compress for zstd, compress/gzip.
    const GO_GZIP: &str = concat!(
        "H4sIAAAAAAAA/4quVkosyAxLLSrOzM9TslIqM1TSUcrOzEtRslJyzs9Ly0z3TSxQ0lHKS8xNVbJSSl",
        "TSUSpKLFeywqYtJbEkESSTrWSlFFNqYGCcXAamUpVqsZqZm1qSCNMDN7+2tjYWEAAA////YuVPlQAA",
        "AA==",
    );
    const GO_ZSTD: &str = concat!(
        "KLUv/QQA7QIAYoUSGXBrCCwo3J29e+eoA0mhfVUKxZrYCgIAlBWHzGxjSW4OIpASw3CN/NRtetSNMq",
        "N7bUlx9NKB4hKoCK4PPGQ0wLlG5RaMEW7pTyEFAGMo4CpBrvCjShtQ02oP2Lx9Nw==",
    );
    const GO_REVISION: &str = concat!(
        "KLUv/UQAPQD9BACSih4agAdsAJftv9zbFNKRWC65GpaMudQZn9efdyJrrfXxtpe3vdyaIu0BabvSTU",
        "5NAxQYa7VdEfhYsaIuOkvedoJIfSxjCGpH51jhyQFM5ON3O57Tt/34yjGejxPHWEAUAApYhnM7YFpy",
        "lZAg0X0E3F40i7ddN/lIGoTuHQwAHZOjYl8MNzlwQXvwsDxQt5WYQ+1JnyXy4baNErI0Jh4haDbo",
    );

    fn tracker(type_: &str, data: &str) -> ResourceTracker {
        let mut tracker = ResourceTracker::new("", "app-v1-n");
        tracker.spec.compression = Compression { type_: type_.to_owned(), data: data.to_owned() };
        tracker
    }

    fn config_map() -> ManagedResource {
        let raw = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "<v>"},
        });
        ManagedResource {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: "a".to_owned(),
            raw: Some(raw.into()),
            ..ManagedResource::default()
        }
    }

    #[test]
    fn reads_what_go_wrote() {
        for (type_, data) in [("gzip", GO_GZIP), ("zstd", GO_ZSTD)] {
            let mut tracker = tracker(type_, data);
            tracker.expand().expect("readable");
            assert_eq!(tracker.spec.managed_resources, [config_map()]);
            assert_eq!(tracker.spec.compression.type_, type_, "the type stays");
            assert!(tracker.spec.compression.data.is_empty());
        }
        let mut revision = ApplicationRevision::new("n", "a-v1");
        revision.spec.compression =
            Compression { type_: "zstd".to_owned(), data: GO_REVISION.to_owned() };
        revision.expand().expect("readable");
        assert_eq!(revision.spec.application.metadata.name.as_deref(), Some("a"));
        assert!(revision.spec.application.spec.components.is_empty());
        assert!(revision.spec.component_definitions.contains_key("c"));
        assert_eq!(revision.spec.compression.type_, "zstd");
    }

    #[test]
    fn what_is_stored_comes_back() {
        for type_ in ["", "gzip", "zstd"] {
            let mut tracker = tracker(type_, "");
            tracker.spec.managed_resources = vec![config_map()];
            let stored = tracker.to_stored().expect("stored");
            assert_eq!(stored.spec.managed_resources.is_empty(), !type_.is_empty());
            assert_eq!(stored.spec.compression.data.is_empty(), type_.is_empty());
            let mut read = stored.clone();
            read.expand().expect("readable");
            assert_eq!(read, tracker);
            // Nothing left to do for what is expanded already.
            read.expand().expect("readable");
            assert_eq!(read, tracker);
        }
    }

    #[test]
    fn a_stored_revision_keeps_the_stub_the_schema_wants() {
        let mut revision = ApplicationRevision::new("n", "a-v1");
        revision.spec.application = crate::Application::new("n", "a");
        revision.spec.compression.type_ = "zstd".to_owned();
        revision.status.succeeded = true;
        let stored = revision.to_stored().expect("stored");
        let mut spec = serde_json::to_value(&stored.spec).expect("json");
        spec["compression"]["data"] = json!("...");
        assert_eq!(
            spec,
            json!({
                "application": {"metadata": {}, "spec": {"components": []}, "status": {}},
                "compression": {"type": "zstd", "data": "..."},
            })
        );
        let mut read = stored;
        read.expand().expect("readable");
        assert_eq!(read, revision);
    }

    #[test]
    fn what_is_packed_comes_back_and_takes_little() {
        for text in ["", "a", &"b".repeat(3 << 20)] {
            let packed = pack(text.as_bytes()).expect("packed");
            assert_eq!(unpack(&packed).expect("readable"), text.as_bytes());
        }
        for line in COMMON.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let object: Value = serde_json::from_slice(line).expect("an object");
            let named = object.to_string().replace("\"web\"", "\"payments\"");
            let packed = pack(named.as_bytes()).expect("packed");
            assert_eq!(unpack(&packed).expect("readable"), named.as_bytes());
            let alone = zstd_compress(named.as_bytes(), LEVEL_IN_MEMORY).expect("compressed");
            assert!(packed.len() * 2 < alone.len(), "{} {}", packed.len(), alone.len());
        }
        assert!(unpack(b"damaged").is_err());
        let packed = pack(b"some text that is long enough to be one").expect("packed");
        assert!(unpack(packed.get(..packed.len() - 1).expect("a part")).is_err());
    }

    #[test]
    fn damaged_payloads_are_errors() {
        let text = |type_: &str, data: &str| {
            tracker(type_, data).expand().expect_err("unreadable").to_string()
        };
        assert_eq!(text("lz4", "AA=="), "unsupported compression type: lz4");
        assert_eq!(text("zstd", "?"), "compressed data is not base64");
        assert_eq!(text("zstd", "AAAA"), "compressed data is damaged");
        assert_eq!(text("gzip", "AAAA"), "compressed data is damaged");
        let number = compress(Algorithm::Zstd, b"7").expect("compressed");
        assert_eq!(text("zstd", &number), "compressed data has unexpected content");
    }

    #[test]
    fn bombs_do_not_explode() {
        let zeros = std::io::repeat(0).take(MAX_EXPANDED + 1);
        let packed = zstd::stream::encode_all(zeros, 1).expect("compressed");
        assert!(packed.len() < 1 << 20);
        let error = expand(Algorithm::Zstd, &BASE64.encode(packed)).expect_err("too large");
        assert!(matches!(error, Error::TooLarge));
    }
}
