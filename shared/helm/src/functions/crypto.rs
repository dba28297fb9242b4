//! Random texts, passwords, ciphers. All randomness but that of private keys is the host's.

use aws_lc_rs::cipher::{
    AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use gotemplate::{Args, Failure, Function, Param, Type, Uint, Value};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::encoding::{decode64, hex};
use super::table::{Context, INT, Result, STRING, function, text};
use crate::engine::state::State;
use crate::keys::Algorithm;

const UINT32: Param = Param::Of(Type::Uint(Uint::Uint32));

pub(super) static TABLE: &[Function<State>] = &[
    function("randAlphaNum", &[INT], |call, args| random(call, args, &[LETTERS, DIGITS])),
    function("randAlpha", &[INT], |call, args| random(call, args, &[LETTERS])),
    function("randNumeric", &[INT], |call, args| random(call, args, &[DIGITS])),
    function("randAscii", &[INT], |call, args| {
        let printable: String = (' '..='~').collect();
        random(call, args, &[&printable])
    }),
    function("randBytes", &[INT], |call, args| {
        let Ok(count) = usize::try_from(args.int(0)) else {
            return Err(Failure::text("runtime error: makeslice: len out of range"));
        };
        call.host().text(count.saturating_mul(2))?;
        let mut bytes = vec![0; count];
        call.host().host.random(&mut bytes);
        Ok(Value::from(STANDARD.encode(bytes)))
    }),
    function("shuffle", &[STRING], |call, args| {
        let mut chars: Vec<char> = args.text(0).chars().collect();
        call.host().elements(chars.len())?;
        for at in (1..chars.len()).rev() {
            let other = usize::try_from(below(call.host(), at as u64 + 1)).unwrap_or_default();
            chars.swap(at, other);
        }
        Ok(Value::from(chars.into_iter().collect::<String>()))
    }),
    function("uuidv4", &[], |call, _| {
        let mut bytes = [0; 16];
        call.host().host.random(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let digits = hex(&bytes);
        let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
        let parts = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)];
        Ok(Value::from(parts.join("-")))
    }),
    function("bcrypt", &[STRING], |call, args| {
        let hash = bcrypt_of(call, &args.str(0))?;
        Ok(Value::from(hash))
    }),
    function("htpasswd", &[STRING, STRING], |call, args| {
        let user = args.text(0);
        if user.contains(':') {
            return text(call, format!("invalid username: {user}"));
        }
        let hash = bcrypt_of(call, &args.str(1))?;
        text(call, format!("{user}:{hash}"))
    }),
    function("encryptAES", &[STRING, STRING], encrypt),
    function("decryptAES", &[STRING, STRING], decrypt),
    function("derivePassword", &[UINT32, STRING, STRING, STRING, STRING], derive),
    function("genPrivateKey", &[STRING], |call, args| {
        let algorithm = match &*args.text(0) {
            "" | "rsa" => Algorithm::Rsa4096,
            "ecdsa" => Algorithm::EcdsaP256,
            "ed25519" => Algorithm::Ed25519,
            "dsa" => return Err(Failure::text("DSA keys are not generated: nothing trusts them")),
            other => return text(call, format!("Unknown type {other}")),
        };
        let key = call.host().private_key(algorithm)?;
        text(call, key.to_pem())
    }),
];

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const DIGITS: &str = "0123456789";

/// A number below `span`, which is not 0, all equally likely.
pub(super) fn below(state: &mut State, span: u64) -> u64 {
    // Numbers of the last, incomplete round would make the low ones more likely.
    let rounds = u64::MAX - u64::MAX % span;
    loop {
        let mut bytes = [0; 8];
        state.host.random(&mut bytes);
        let number = u64::from_le_bytes(bytes);
        // A host without randomness must not hold the render up.
        if number < rounds || bytes == [0xff; 8] {
            return number % span;
        }
    }
}

fn random(call: &mut Context<'_>, args: Args<'_>, alphabets: &[&str]) -> Result {
    let Ok(count) = usize::try_from(args.int(0)) else { return Ok(Value::from("")) };
    call.host().elements(count)?;
    let alphabet: Vec<char> = alphabets.iter().flat_map(|part| part.chars()).collect();
    let mut out = String::with_capacity(count);
    for _ in 0..count {
        let at = usize::try_from(below(call.host(), alphabet.len() as u64)).unwrap_or_default();
        out.extend(alphabet.get(at));
    }
    Ok(Value::from(out))
}

/// What a hash of a password costs, in powers of two, as in Go's library.
const COST: u32 = 10;
/// Steps that such a hash costs: some 50 milliseconds.
const STEPS_A_HASH: u64 = 500_000;
const LONGEST_PASSWORD: usize = 72;

fn bcrypt_of(call: &mut Context<'_>, password: &gotemplate::Str) -> Result<String> {
    if password.len() > LONGEST_PASSWORD {
        let what = "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes";
        return Ok(what.to_owned());
    }
    call.steps(STEPS_A_HASH)?;
    let mut salt = [0; 16];
    call.host().host.random(&mut salt);
    let mut ended = password.as_bytes().to_vec();
    ended.push(0);
    ended.truncate(LONGEST_PASSWORD);
    let hash = bcrypt::bcrypt(COST, salt, &ended);
    let config = GeneralPurposeConfig::new().with_encode_padding(false);
    let encoding = GeneralPurpose::new(&base64::alphabet::BCRYPT, config);
    let hash = encoding.encode(hash.get(..23).unwrap_or_default());
    Ok(format!("$2a${COST}${}{hash}", encoding.encode(salt)))
}

/// The bytes of a password as a key: filled up with zeros, or cut.
fn aes_key(password: &[u8]) -> Result<UnboundCipherKey> {
    let mut key = [0; 32];
    for (byte, given) in key.iter_mut().zip(password) {
        *byte = *given;
    }
    UnboundCipherKey::new(&AES_256, &key).map_err(cipher)
}

fn cipher(_: aws_lc_rs::error::Unspecified) -> Failure {
    Failure::text("crypto/cipher: the text cannot be processed with this password")
}

fn encrypt(call: &mut Context<'_>, args: Args<'_>) -> Result {
    let plain = args.str(1);
    if plain.is_empty() {
        return Ok(Value::from(""));
    }
    call.host().text(plain.len().saturating_mul(2))?;
    let mut iv = [0; 16];
    call.host().host.random(&mut iv);
    let mut bytes = plain.as_bytes().to_vec();
    let key =
        PaddedBlockEncryptingKey::cbc_pkcs7(aes_key(args.str(0).as_bytes())?).map_err(cipher)?;
    let context = EncryptionContext::Iv128(FixedLength::from(&iv));
    key.less_safe_encrypt(&mut bytes, context).map_err(cipher)?;
    Ok(Value::from(STANDARD.encode([&iv[..], &bytes].concat())))
}

fn decrypt(call: &mut Context<'_>, args: Args<'_>) -> Result {
    let packed = args.str(1);
    if packed.is_empty() {
        return Ok(Value::from(""));
    }
    call.host().text(packed.len())?;
    let bytes = decode64(packed.as_bytes()).map_err(|error| Failure::text(error.to_string()))?;
    let Some((iv, sealed)) = bytes.split_first_chunk::<16>() else {
        return Err(Failure::text("runtime error: slice bounds out of range [:16]"));
    };
    if sealed.is_empty() || sealed.len() % 16 != 0 {
        return Err(Failure::text("crypto/cipher: input not full blocks"));
    }
    let key =
        PaddedBlockDecryptingKey::cbc_pkcs7(aes_key(args.str(0).as_bytes())?).map_err(cipher)?;
    let mut sealed = sealed.to_vec();
    let context = DecryptionContext::Iv128(FixedLength::from(iv));
    let plain = key.decrypt(&mut sealed, context).map_err(cipher)?;
    text(call, &*plain)
}

/// The scope of keys of the Master Password algorithm, version 1.
const SCOPE: &[u8] = b"com.lyndir.masterpassword";
/// Steps that its key costs.
const STEPS_A_KEY: u64 = 2_000_000;

fn derive(call: &mut Context<'_>, args: Args<'_>) -> Result {
    let counter = u32::try_from(args.int(0)).unwrap_or_default();
    let (kind, password, user, site) = (args.text(1), args.str(2), args.str(3), args.str(4));
    let Some(templates) = templates(&kind) else {
        return text(call, format!("cannot find password template {kind}"));
    };
    call.steps(STEPS_A_KEY)?;
    let broken = || Failure::text("the password cannot be derived");
    let length =
        |text: &gotemplate::Str| u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
    let salt = [SCOPE, &length(&user), user.as_bytes()].concat();
    let parameters = scrypt::Params::new(15, 8, 2).map_err(|_| broken())?;
    let mut key = [0; 64];
    scrypt::scrypt(password.as_bytes(), &salt, &parameters, &mut key).map_err(|_| broken())?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|_| broken())?;
    for part in [SCOPE, &length(&site), site.as_bytes(), &counter.to_be_bytes()] {
        mac.update(part);
    }
    let seed = mac.finalize().into_bytes();
    let pick =
        |from: usize, at: usize| usize::from(seed.get(at).copied().unwrap_or_default()) % from;
    let template = templates.get(pick(templates.len(), 0)).copied().unwrap_or_default();
    let letters = template.bytes().enumerate().filter_map(|(at, class)| {
        let letters = letters(class);
        letters.as_bytes().get(pick(letters.len(), at + 1)).copied().map(char::from)
    });
    Ok(Value::from(letters.collect::<String>()))
}

/// The forms of passwords of a kind: a letter stands for a class of letters.
fn templates(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        "long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        "medium" => &["CvcnoCvc", "CvcCvcno"],
        "short" => &["Cvcn"],
        "basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        "pin" => &["nnnn"],
        _ => return None,
    })
}

fn letters(class: u8) -> &'static str {
    match class {
        b'V' => "AEIOU",
        b'C' => "BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => "aeiou",
        b'c' => "bcdfghjklmnpqrstvwxyz",
        b'A' => "AEIOUBCDFGHJKLMNPQRSTVWXYZ",
        b'a' => "AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => "0123456789",
        b'o' => "@&%?,=[]_:-+*$#!'^~;()/.",
        _ => "AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}
