//! Packages `crypto/md5`, `crypto/sha1`, `crypto/sha256`, `crypto/sha512`, `crypto/hmac`,
//! `crypto/ed25519`.

use ed25519_dalek::{Signature, VerifyingKey};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};

use super::args::{Out, bytes, constant, fail, func, text};
use super::{BuiltinError, Member, Param};
use crate::kind::Kind;
use crate::limits::Budget;
use crate::value::Value;

const DATA: &[Param] = &[Param::BYTES];

pub(super) static MD5: &[Member] = &[
    constant("Size", "16"),
    constant("BlockSize", "64"),
    func("Sum", DATA, Kind::BYTES, digest::<Md5>),
];

pub(super) static SHA1: &[Member] = &[
    constant("Size", "20"),
    constant("BlockSize", "64"),
    func("Sum", DATA, Kind::BYTES, digest::<Sha1>),
];

pub(super) static SHA256: &[Member] = &[
    constant("Size", "32"),
    constant("Size224", "28"),
    constant("BlockSize", "64"),
    func("Sum256", DATA, Kind::BYTES, digest::<Sha256>),
    func("Sum224", DATA, Kind::BYTES, digest::<Sha224>),
];

pub(super) static SHA512: &[Member] = &[
    constant("Size", "64"),
    constant("Size224", "28"),
    constant("Size256", "32"),
    constant("Size384", "48"),
    constant("BlockSize", "128"),
    func("Sum512", DATA, Kind::BYTES, digest::<Sha512>),
    func("Sum384", DATA, Kind::BYTES, digest::<Sha384>),
    func("Sum512_224", DATA, Kind::BYTES, digest::<Sha512_224>),
    func("Sum512_256", DATA, Kind::BYTES, digest::<Sha512_256>),
];

pub(super) static HMAC: &[Member] = &[
    constant("MD5", "\"MD5\""),
    constant("SHA1", "\"SHA1\""),
    constant("SHA224", "\"SHA224\""),
    constant("SHA256", "\"SHA256\""),
    constant("SHA384", "\"SHA384\""),
    constant("SHA512", "\"SHA512\""),
    constant("SHA512_224", "\"SHA512_224\""),
    constant("SHA512_256", "\"SHA512_256\""),
    func("Sign", &[Param::STRING, Param::BYTES, Param::BYTES], Kind::BYTES, hmac),
];

pub(super) static ED25519: &[Member] = &[
    constant("PublicKeySize", "32"),
    constant("SignatureSize", "64"),
    func("Valid", &[Param::BYTES, Param::BYTES, Param::BYTES], Kind::BOOL, ed25519),
];

fn counted<'a>(args: &'a [Value], i: usize, budget: &mut Budget) -> Result<&'a [u8], BuiltinError> {
    let data = bytes(args, i)?;
    budget.steps(data.len() as u64 >> 4)?;
    Ok(data)
}

fn digest<D: Digest>(args: &[Value], budget: &mut Budget) -> Out {
    let sum = D::digest(counted(args, 0, budget)?);
    Ok(Value::Bytes(sum.as_slice().into()))
}

fn sign<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Out {
    match <M as KeyInit>::new_from_slice(key) {
        Ok(mut mac) => {
            mac.update(data);
            Ok(Value::Bytes(mac.finalize().into_bytes().as_slice().into()))
        }
        Err(_) => fail("invalid key length"),
    }
}

fn hmac(args: &[Value], budget: &mut Budget) -> Out {
    let (key, data) = (counted(args, 1, budget)?, counted(args, 2, budget)?);
    match text(args, 0)? {
        "MD5" => sign::<Hmac<Md5>>(key, data),
        "SHA1" => sign::<Hmac<Sha1>>(key, data),
        "SHA224" => sign::<Hmac<Sha224>>(key, data),
        "SHA256" => sign::<Hmac<Sha256>>(key, data),
        "SHA384" => sign::<Hmac<Sha384>>(key, data),
        "SHA512" => sign::<Hmac<Sha512>>(key, data),
        "SHA512_224" => sign::<Hmac<Sha512_224>>(key, data),
        "SHA512_256" => sign::<Hmac<Sha512_256>>(key, data),
        _ => fail("unsupported hash function"),
    }
}

fn ed25519(args: &[Value], budget: &mut Budget) -> Out {
    let (key, message, signature) = (bytes(args, 0)?, counted(args, 1, budget)?, bytes(args, 2)?);
    budget.steps(1000)?;
    let Ok(key) = <&[u8; 32]>::try_from(key) else {
        return fail("ed25519: publicKey must be 32 bytes");
    };
    let Ok(signature) = <&[u8; 64]>::try_from(signature) else {
        return fail("ed25519: signature must be 64 bytes");
    };
    let Ok(key) = VerifyingKey::from_bytes(key) else {
        return Ok(false.into());
    };
    let signature = Signature::from_bytes(signature);
    Ok(ed25519_dalek::Verifier::verify(&key, message, &signature).is_ok().into())
}
