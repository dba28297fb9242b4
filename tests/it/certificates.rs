//! The admission certificate, live: the API server calls the webhook through its Service with the
//! certificate that the controller issues, keeps and repairs. What is damaged heals within 5 s,
//! and the installation starts from the Secret that a vela-core installation left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use rcgen::{CertificateParams, DnType, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use vela_certs::{bundle, issue};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::NAMESPACE;
use vela_tests::fixtures::{binaries, until};
use vela_tests::release::{ADMISSION, Release, admits};

const CA_SECRET: &str = "kubevela-vela-core-admission-ca";
const HOSTS: [&str; 2] = ["vela-core-webhook", "vela-core-webhook.vela-system.svc"];
/// Webhooks of the two configurations with authentication.
const WEBHOOKS: usize = 14;
/// What the issue promises.
const HEALED: Duration = Duration::from_secs(5);

/// One release for all tests of this file, one test at a time.
async fn release() -> (MutexGuard<'static, ()>, &'static Installed) {
    static TURN: Mutex<()> = Mutex::const_new(());
    static RELEASE: OnceCell<Installed> = OnceCell::const_new();
    let turn = TURN.lock().await;
    (turn, RELEASE.get_or_init(install).await)
}

struct Installed {
    release: Release,
    /// The authority of the Secret that was there before.
    old: String,
    /// Its leaf.
    old_leaf: String,
    /// The Secret when the installation had settled.
    first: BTreeMap<String, String>,
}

impl Installed {
    async fn client(&self) -> Client {
        self.release.cluster().client().await.unwrap()
    }
}

/// Installs the release next to a Secret as kube-webhook-certgen makes it: key `ca` without the
/// authority's key, the leaf's key as SEC1.
async fn install() -> Installed {
    let cluster = Arc::new(Cluster::start("release").await.unwrap());
    let client = cluster.client().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } })).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();

    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::OrganizationName, "nil1");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let old = params.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate().unwrap();
    let mut leaf = CertificateParams::new(HOSTS.map(str::to_owned)).unwrap();
    leaf.distinguished_name.push(DnType::OrganizationName, "nil2");
    let old_leaf = leaf.signed_by(&key, &issuer).unwrap().pem();
    let data = [("ca", old.clone()), ("tls.crt", old_leaf.clone()), ("tls.key", sec1(&key))];
    let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
    let theirs = Secret {
        data: Some(data.map(|(k, v)| (k.to_owned(), ByteString(v.into_bytes()))).into()),
        type_: Some("Opaque".to_owned()),
        metadata: serde_json::from_value(json!({ "name": ADMISSION })).unwrap(),
        ..Secret::default()
    };
    secrets.create(&PostParams::default(), &theirs).await.unwrap();

    let release = Release::prepare(cluster, binaries()).await.unwrap();
    release.put("install", &[]).await.unwrap();
    let client = release.cluster().client().await.unwrap();
    sound(&client).await;
    let first = secret(&client, ADMISSION).await.unwrap();
    Installed { release, old, old_leaf, first }
}

/// The key in the form that Go's `MarshalECPrivateKey` gives.
fn sec1(key: &KeyPair) -> String {
    use base64::Engine;
    let pkcs8 = key.serialize_der();
    let mark = [0x02, 0x01, 0x01, 0x04, 0x20];
    let start = pkcs8.windows(5).position(|window| window == mark).unwrap() + 5;
    let mut body = mark.to_vec();
    body.extend(&pkcs8[start..start + 32]);
    // [0] prime256v1, [1] the public key
    body.extend([0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]);
    body.extend([0xa1, 0x44, 0x03, 0x42, 0x00]);
    body.extend(key.public_key_raw());
    let mut der = vec![0x30, u8::try_from(body.len()).unwrap()];
    der.extend(body);
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|c| str::from_utf8(c).unwrap()).collect();
    let (begin, end) = ("-----BEGIN EC PRIVATE KEY-----", "-----END EC PRIVATE KEY-----");
    format!("{begin}\n{}\n{end}\n", lines.join("\n"))
}

/// The CA bundles of all webhooks of both configurations.
async fn bundles(client: &Client) -> Vec<String> {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let first = mutating.get(ADMISSION).await.unwrap().webhooks.unwrap_or_default();
    let second = validating.get(ADMISSION).await.unwrap().webhooks.unwrap_or_default();
    let text = |bundle: Option<ByteString>| {
        bundle.map(|b| String::from_utf8(b.0).unwrap()).unwrap_or_default()
    };
    let first = first.into_iter().map(|hook| text(hook.client_config.ca_bundle));
    first.chain(second.into_iter().map(|hook| text(hook.client_config.ca_bundle))).collect()
}

async fn set_bundles(client: &Client, bundle: &str) {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let bundle = Some(ByteString(bundle.as_bytes().to_vec()));
    let mut one = mutating.get(ADMISSION).await.unwrap();
    for hook in one.webhooks.iter_mut().flatten() {
        hook.client_config.ca_bundle.clone_from(&bundle);
    }
    mutating.replace(ADMISSION, &PostParams::default(), &one).await.unwrap();
    let mut one = validating.get(ADMISSION).await.unwrap();
    for hook in one.webhooks.iter_mut().flatten() {
        hook.client_config.ca_bundle.clone_from(&bundle);
    }
    validating.replace(ADMISSION, &PostParams::default(), &one).await.unwrap();
}

async fn secret(client: &Client, name: &str) -> Option<BTreeMap<String, String>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let data = secrets.get_opt(name).await.unwrap()?.data?;
    Some(data.into_iter().map(|(k, v)| (k, String::from_utf8(v.0).unwrap())).collect())
}

async fn delete_secret(client: &Client, name: &str) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    secrets.delete(name, &DeleteParams::default()).await.unwrap();
}

async fn set_secret(client: &Client, name: &str, data: Value) {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let patch = Patch::Merge(json!({ "stringData": data }));
    secrets.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// All webhooks carry what the Secret says, the served leaf is of the present authority, and the
/// API server can use it.
async fn is_sound(client: &Client) -> bool {
    let (Some(serving), Some(authority)) =
        (secret(client, ADMISSION).await, secret(client, CA_SECRET).await)
    else {
        return false;
    };
    let leaf = bundle::Facts::of_pem(&serving["tls.crt"]);
    let issuer = bundle::Facts::of_pem(&authority["tls.crt"]);
    let (Some(leaf), Some(issuer)) = (leaf, issuer) else { return false };
    let all = bundles(client).await;
    all.len() == WEBHOOKS
        && all.iter().all(|bundle| Some(bundle) == serving.get("ca.crt"))
        && all.iter().all(|bundle| bundle::contains(bundle, &authority["tls.crt"]))
        && leaf.signed_by == issuer.key_id
        && leaf.holds_at(jiff::Timestamp::now())
        && admits(client).await.is_ok()
}

async fn sound(client: &Client) {
    until("a sound certificate", Duration::from_secs(30), async || is_sound(client).await).await;
}

async fn healed(what: &str, client: &Client) {
    let since = Instant::now();
    until("a sound certificate", Duration::from_secs(60), async || is_sound(client).await).await;
    let time = since.elapsed();
    assert!(time < HEALED, "{what}: healed after {:.1} s", time.as_secs_f64());
}

#[tokio::test]
async fn the_secret_of_a_vela_core_installation_is_taken_over_with_overlap() {
    let (_turn, installed) = release().await;
    let serving = &installed.first;
    assert_ne!(serving["tls.crt"], installed.old_leaf, "the leaf is ours by now");
    assert_eq!(serving["ca"], serving["ca.crt"], "a rollback's jobs read the old key");
    assert!(
        bundle::contains(&serving["ca.crt"], &installed.old),
        "Pods that still serve the old leaf are trusted"
    );
}

#[tokio::test]
async fn an_emptied_or_tampered_ca_bundle_heals() {
    let (_turn, installed) = release().await;
    let client = installed.client().await;
    sound(&client).await;
    let foreign = issue::authority(jiff::Timestamp::now()).unwrap().cert;
    for (what, bundle) in
        [("caBundle emptied", ""), ("caBundle is somebody else's", foreign.as_str())]
    {
        set_bundles(&client, bundle).await;
        healed(what, &client).await;
        assert!(bundles(&client).await.iter().all(|b| !bundle::contains(b, &foreign)), "{what}");
    }
}

#[tokio::test]
async fn deleted_secrets_are_made_again() {
    let (_turn, installed) = release().await;
    let client = installed.client().await;
    sound(&client).await;
    let authority = secret(&client, CA_SECRET).await.unwrap();

    delete_secret(&client, ADMISSION).await;
    healed("serving Secret deleted", &client).await;
    assert_eq!(secret(&client, CA_SECRET).await.unwrap(), authority, "the same authority");

    // The leaf that Pods serve stays trusted, though its authority is gone: the kubelet of a real
    // node takes a minute to bring the next one.
    installed.release.hold_mount();
    delete_secret(&client, CA_SECRET).await;
    delete_secret(&client, ADMISSION).await;
    until("a new authority", HEALED, async || {
        let is_new = |now: BTreeMap<String, String>| now["tls.crt"] != authority["tls.crt"];
        let made = secret(&client, CA_SECRET).await.is_some_and(is_new);
        made && bundles(&client).await.iter().all(|b| bundle::contains(b, &authority["tls.crt"]))
    })
    .await;
    admits(&client).await.unwrap();
    installed.release.release_mount();
    healed("both Secrets deleted", &client).await;
}

#[tokio::test]
async fn an_unusable_leaf_is_replaced() {
    let (_turn, installed) = release().await;
    let client = installed.client().await;
    sound(&client).await;
    let authority = secret(&client, CA_SECRET).await.unwrap();
    let before = secret(&client, ADMISSION).await.unwrap();
    let pem = issue::Pem {
        cert: authority["tls.crt"].clone(),
        key: issue::Key(authority["tls.key"].clone()),
    };
    let name = bundle::Facts::of_pem(&pem.cert).unwrap().subject;
    let hosts = HOSTS.map(str::to_owned);

    let past = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * 400);
    let expired = issue::leaf(&pem, &name, &hosts, past).unwrap();
    set_secret(&client, ADMISSION, json!({ "tls.crt": expired.cert, "tls.key": expired.key.0 }))
        .await;
    healed("leaf expired", &client).await;

    set_secret(&client, ADMISSION, json!({ "tls.key": before["tls.key"] })).await;
    healed("key of another leaf", &client).await;

    set_secret(&client, ADMISSION, json!({ "tls.crt": "rubbish" })).await;
    healed("leaf is no certificate", &client).await;

    let now = jiff::Timestamp::now();
    let elsewhere = issue::leaf(&pem, &name, &["elsewhere.svc".to_owned()], now).unwrap();
    let data = json!({ "tls.crt": elsewhere.cert, "tls.key": elsewhere.key.0 });
    set_secret(&client, ADMISSION, data).await;
    healed("leaf for another host", &client).await;
}

/// The order of a change of authority: the bundle first, the leaf later, and Pods that have the
/// old leaf in the meantime are trusted all the time.
#[tokio::test]
async fn a_new_authority_overlaps_with_the_old_one() {
    let (_turn, installed) = release().await;
    let client = installed.client().await;
    sound(&client).await;
    let old = secret(&client, CA_SECRET).await.unwrap();
    installed.release.hold_mount();
    // An authority past two thirds of its life.
    let past = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * 365 * 4);
    let aged = issue::authority(past).unwrap();
    let data =
        json!({ "tls.crt": aged.cert, "tls.key": aged.key.0, "previous.crt": old["tls.crt"] });
    set_secret(&client, CA_SECRET, data).await;
    // Every reconcile in between must find an admission that works, with the leaf of before.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut reads = 0;
    loop {
        admits(&client).await.unwrap();
        reads += 1;
        let authority = secret(&client, CA_SECRET).await.unwrap();
        let serving = secret(&client, ADMISSION).await.unwrap();
        let issuer = bundle::Facts::of_pem(&authority["tls.crt"]).unwrap();
        let served = bundle::Facts::of_pem(&serving["tls.crt"]).unwrap();
        let is_new = authority["tls.crt"] != old["tls.crt"] && authority["tls.crt"] != aged.cert;
        if is_new && served.signed_by == issuer.key_id {
            for one in bundles(&client).await {
                assert!(bundle::contains(&one, &old["tls.crt"]), "the oldest is not over yet");
                assert!(bundle::contains(&one, &authority["tls.crt"]));
            }
            break;
        }
        assert!(Instant::now() < deadline, "the leaf of the new authority is missing");
    }
    assert!(reads > 3, "admission was looked at in between");
    installed.release.release_mount();
    sound(&client).await;
}
