//! Certificates that templates make: authorities, and leaves signed by themselves or by one of those.

use std::net::IpAddr;
use std::time::Duration;

use gotemplate::{Args, Failure, Function, Param, Type, Value};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, SerialNumber,
};

use super::convert::display;
use super::encoding::decode64;
use super::table::{Context, INT, Result, STRING, function};
use crate::engine::state::State;
use crate::keys::{Algorithm, from_pem, pem};
use crate::objects::Certificate;

/// `sprig.certificate`
const CERTIFICATE: Param = Param::Of(Type::Named(Certificate::TYPE));
const LIST: Param = Param::LIST;

pub(super) static TABLE: &[Function<State>] = &[
    function("genCA", &[STRING, INT], |call, args| sign_ca(call, args, None)),
    function("genCAWithKey", &[STRING, INT, STRING], |call, args| {
        sign_ca(call, args, Some(&args.text(2)))
    }),
    function("genSelfSignedCert", &[STRING, LIST, LIST, INT], |call, args| {
        sign_leaf(call, args, None, None)
    }),
    function("genSelfSignedCertWithKey", &[STRING, LIST, LIST, INT, STRING], |call, args| {
        sign_leaf(call, args, None, Some(&args.text(4)))
    }),
    function("genSignedCert", &[STRING, LIST, LIST, INT, CERTIFICATE], |call, args| {
        sign_leaf(call, args, Some(args.get(4)), None)
    }),
    function(
        "genSignedCertWithKey",
        &[STRING, LIST, LIST, INT, CERTIFICATE, STRING],
        |call, args| sign_leaf(call, args, Some(args.get(4)), Some(&args.text(5))),
    ),
    function("buildCustomCert", &[STRING, STRING], build),
];

/// A key of a certificate: the pair that signs, and its text.
struct Key {
    pair: KeyPair,
    pem: String,
}

/// The given key, or a new one of RSA.
fn key(call: &mut Context<'_>, given: Option<&str>) -> Result<Key> {
    let pem = match given {
        Some(given) => given.to_owned(),
        None => call.host().private_key(Algorithm::Rsa2048)?.to_pem(),
    };
    if from_pem(&pem).is_none() {
        return Err(Failure::text("parsing private key: no PEM data in input"));
    }
    let pair = KeyPair::from_pem(&pem)
        .map_err(|error| Failure::text(format!("parsing private key: {error}")))?;
    Ok(Key { pair, pem })
}

fn parameters(call: &mut Context<'_>, name: &str, days: i64) -> CertificateParams {
    let mut serial = [0; 16];
    call.host().host.random(&mut serial);
    // A serial number is positive.
    serial[0] &= 0x7f;
    let now = u64::try_from(call.host().host.now().as_second()).unwrap_or_default();
    let from = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(now);
    // Beyond a hundred years nobody checks.
    let length = Duration::from_secs(days.unsigned_abs().min(36_525) * 86_400);
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    let mut parameters = CertificateParams::default();
    parameters.not_before = from;
    parameters.not_after = if days < 0 { from - length } else { from + length };
    parameters.serial_number = Some(SerialNumber::from_slice(&serial));
    parameters.distinguished_name = names;
    parameters.key_usages =
        vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    parameters.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    parameters.is_ca = IsCa::ExplicitNoCa;
    parameters
}

#[allow(clippy::needless_pass_by_value, reason = "the shape of map_err")]
fn failed(error: rcgen::Error) -> Failure {
    Failure::text(format!("error creating certificate: {error}"))
}

/// `genCA NAME DAYS`: an authority.
fn sign_ca(call: &mut Context<'_>, args: Args<'_>, given: Option<&str>) -> Result {
    let key = key(call, given)?;
    let mut parameters = parameters(call, &args.text(0), args.int(1));
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages.push(KeyUsagePurpose::KeyCertSign);
    let signed = parameters.self_signed(&key.pair).map_err(failed)?;
    Ok(Certificate { cert: pem("CERTIFICATE", signed.der()), key: key.pem }.into())
}

/// `genSignedCert NAME IPS DNS DAYS AUTHORITY`: a leaf; without an authority it signs itself.
fn sign_leaf(
    call: &mut Context<'_>,
    args: Args<'_>,
    authority: Option<&Value>,
    given: Option<&str>,
) -> Result {
    let mut names = Vec::new();
    for ip in args.list(1).as_slice() {
        let Value::String(text) = ip else {
            let found = display(call.host(), ip)?;
            return Err(Failure::text(format!("error parsing ip: {found} is not a string")));
        };
        let ip: IpAddr = text
            .to_str_lossy()
            .parse()
            .map_err(|_| Failure::text(format!("error parsing ip: {text}")))?;
        names.push(SanType::IpAddress(ip));
    }
    for name in args.list(2).as_slice() {
        let Value::String(text) = name else {
            let found = display(call.host(), name)?;
            return Err(Failure::text(format!(
                "error processing alternate dns name: {found} is not a string"
            )));
        };
        let name = text.to_string().try_into().map_err(failed)?;
        names.push(SanType::DnsName(name));
    }
    call.steps(10_000)?;
    let key = key(call, given)?;
    let mut parameters = parameters(call, &args.text(0), args.int(3));
    parameters.subject_alt_names = names;
    let signed = match authority {
        None => parameters.self_signed(&key.pair),
        Some(authority) => {
            let Some(authority) = authority.downcast_ref::<Certificate>() else {
                return Err(Failure::text("unable to decode certificate"));
            };
            let (_, der) = from_pem(&authority.cert)
                .ok_or_else(|| Failure::text("unable to decode certificate"))?;
            let signer = KeyPair::from_pem(&authority.key)
                .map_err(|error| Failure::text(format!("error parsing private key: {error}")))?;
            let issuer = Issuer::from_ca_cert_der(&der.into(), signer).map_err(failed)?;
            parameters.use_authority_key_identifier_extension = true;
            parameters.signed_by(&key.pair, &issuer)
        }
    };
    let signed = signed.map_err(failed)?;
    Ok(Certificate { cert: pem("CERTIFICATE", signed.der()), key: key.pem }.into())
}

/// `buildCustomCert CERTIFICATE KEY`: given ones, which have to be readable.
fn build(call: &mut Context<'_>, args: Args<'_>) -> Result {
    call.host().text(args.str(0).len() + args.str(1).len())?;
    let decode = |at: usize, what: &str| {
        let bytes = decode64(args.str(at).as_bytes())
            .map_err(|_| Failure::text(format!("unable to decode base64 {what}")))?;
        Ok::<_, Failure>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let cert = decode(0, "certificate")?;
    let key = decode(1, "private key")?;
    let (_, der) = from_pem(&cert).ok_or_else(|| Failure::text("unable to decode certificate"))?;
    if crate::der::read(&der, 0x30).is_none() {
        return Err(Failure::text(
            "error parsing certificate: decodedCert.Bytes: x509: malformed certificate",
        ));
    }
    if from_pem(&key).is_none() {
        return Err(Failure::text("error parsing private key: no PEM data in input"));
    }
    Ok(Certificate { cert, key }.into())
}
