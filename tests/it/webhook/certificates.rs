//! The certificate changes under load; what the API server trusts is emptied and deleted.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Manifests, NAMESPACE, Options, Program, Role, apply, apply_all};
use vela_tests::fixtures::{binaries, until};
use vela_tests::load::VALIDATE;
use vela_tests::pki::Leaf;

use super::{Own, good, leaf, seconds, swap};

const ROTATIONS: usize = 5;
const CLIENTS: usize = 20;
/// Reviews a second, from all clients together.
const RATE: u64 = 200;
/// What is tampered with heals within this.
const HEALING: Duration = Duration::from_secs(5);

/// `VELA_LOAD_SECONDS` makes it longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotation_under_load_fails_no_review() {
    let own = Arc::new(Own::start("webhook-rotate", &[]).await);
    let time = seconds(8);
    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (own, stop, done) = (Arc::clone(&own), Arc::clone(&stop), Arc::clone(&done));
        clients.spawn(async move {
            let body = good();
            let pace = Duration::from_millis(1000 * CLIENTS as u64 / RATE);
            let mut beat = tokio::time::interval(pace);
            let mut kept = own.target.connect().await.unwrap();
            let mut failed = Vec::new();
            let mut count = 0;
            while !stop.load(Ordering::SeqCst) {
                beat.tick().await;
                count += 1;
                // every other one on a connection of its own, which checks the certificate
                let answer = if count % 2 == 0 {
                    kept.post(VALIDATE, &body).await
                } else {
                    own.target.post(VALIDATE, &body).await
                };
                match answer {
                    Ok(answer) if answer.is_admitted() => {
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                    Ok(answer) => failed.push(String::from_utf8_lossy(&answer.body).into_owned()),
                    Err(error) => failed.push(format!("{error:#}")),
                }
            }
            failed
        });
    }
    let start = Instant::now();
    for rotation in 1..=ROTATIONS {
        let before = own.target.connect().await.unwrap().certificate();
        swap(&own.mount, &format!("..{rotation}"), &leaf(&own.cluster, "webhook-rotate"));
        until("the new certificate is shown", Duration::from_secs(20), async || {
            own.target.connect().await.unwrap().certificate() != before
        })
        .await;
        let part = time * u32::try_from(rotation).unwrap() / ROTATIONS as u32;
        until("load after the change", time * 10, async || start.elapsed() >= part).await;
    }
    stop.store(true, Ordering::SeqCst);
    let failed: Vec<String> = clients.join_all().await.into_iter().flatten().collect();
    let done = done.load(Ordering::SeqCst);
    assert!(failed.is_empty(), "{} of {done} failed: {:?}", failed.len(), failed.first());
    assert!(done > CLIENTS * ROTATIONS, "{done} reviews");
    println!("{done} reviews in {:?}, {ROTATIONS} certificates, 0 failed", start.elapsed());
    own.assert_well().await;
}

/// A control plane whose webhook is called through its Service, with the certificate that the
/// controller keeps: what the chart installs, but for the kubelet, which [`Mirror`] stands in for.
struct World {
    cluster: Cluster,
    client: Client,
    webhook: Program,
    _controller: Program,
    _mirror: Mirror,
}

/// Writes the Secret into the webhook's folder whenever it changes, as the kubelet does.
struct Mirror {
    _task: JoinSet<()>,
}

impl Mirror {
    fn start(client: Client, secret: String, mount: PathBuf) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
            let mut seen = None;
            loop {
                if let Ok(Some(found)) = secrets.get_opt(&secret).await
                    && found.resource_version() != seen
                {
                    let text = |key: &str| {
                        let bytes = found.data.as_ref().and_then(|data| data.get(key));
                        bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
                    };
                    if let (Some(certificate), Some(key)) = (text("tls.crt"), text("tls.key")) {
                        let version = found.resource_version().unwrap_or_default();
                        swap(&mount, &format!("..{version}"), &Leaf { certificate, key });
                        seen = Some(version);
                    }
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Self { _task: tasks }
    }
}

impl World {
    async fn start() -> Self {
        let cluster = Cluster::start("certificates").await.unwrap();
        let client = cluster.client().await.unwrap();
        let manifests = Manifests::render(cluster.programs(), &[]).unwrap();
        apply_all(&client, manifests.foundation()).await.unwrap();
        let wanted = |object: &Value| {
            ["webservice", "scaler"].iter().any(|name| object["metadata"]["name"] == *name)
        };
        let few = manifests.definitions().into_iter().filter(wanted).collect();
        apply_all(&client, few).await.unwrap();

        let options = Options {
            controller_flags: vec!["--webhook-certificates=managed".to_owned()],
            ..Options::default()
        };
        let prepare =
            async |role| Program::prepare(role, &cluster, &binaries(), &manifests, &options).await;
        let mount = cluster.dir().join("mount");
        fs::create_dir_all(&mount).unwrap();
        let webhook = prepare(Role::Webhook).await.unwrap().with_flags([
            format!("--webhook-cert-dir={}", mount.display()),
            "--webhook-cert-wait-interval=100ms".to_owned(),
        ]);
        let controller = prepare(Role::Controller).await.unwrap();
        let port = webhook.url().rsplit_once(':').unwrap().1.parse().unwrap();
        let hooks = manifests.service_webhooks(port);
        let reference = &hooks[0]["webhooks"][0]["clientConfig"]["service"];
        // There are no Pods: the Service leads to this machine, under its own name.
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": reference["name"], "namespace": reference["namespace"] },
            "spec": { "type": "ExternalName", "externalName": "localhost" },
        });
        apply(&client, &service).await.unwrap();
        let secret = hooks[0]["metadata"]["name"].as_str().unwrap().to_owned();
        apply_all(&client, hooks).await.unwrap();
        controller.start(&cluster).unwrap();
        let mirror = Mirror::start(client.clone(), secret, mount);
        webhook.start(&cluster).unwrap();
        webhook.ready().await.unwrap();
        Self { cluster, client, webhook, _controller: controller, _mirror: mirror }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn configuration(&self) -> ValidatingWebhookConfiguration {
        let api: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let list = api.list(&Default::default()).await.unwrap();
        list.items.into_iter().find(|one| one.name_any().ends_with("-admission")).unwrap()
    }

    /// A dry run of an Application that is good, or has an unknown type.
    async fn create(&self, kind: &str) -> kube::Result<DynamicObject> {
        let resource =
            ApiResource::from_gvk(&GroupVersionKind::gvk("core.oam.dev", "v1beta1", "Application"));
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), "default", &resource);
        let object = serde_json::from_value(json!({
            "apiVersion": "core.oam.dev/v1beta1",
            "kind": "Application",
            "metadata": { "name": "probe" },
            "spec": { "components": [
                { "name": "web", "type": kind, "properties": { "image": "nginx" } },
            ] },
        }))
        .unwrap();
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        api.create(&parameters, &object).await
    }

    /// Good is admitted, and bad is refused by the webhook itself.
    async fn works(&self) -> bool {
        let refused = self.create("webservise").await.err().map(|error| error.to_string());
        self.create("webservice").await.is_ok()
            && refused.is_some_and(|text| text.contains("did you mean"))
    }

    async fn healed(&self, what: &str) {
        let start = Instant::now();
        // twice the goal, so that a busy machine shows the number instead of failing
        until(what, HEALING * 2, async || self.works().await).await;
        println!("{what}: {:?}", start.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_tampered_with_heals() {
    let world = World::start().await;
    until("admission works", Duration::from_secs(60), async || world.works().await).await;

    let mut configuration = world.configuration().await;
    for hook in configuration.webhooks.iter_mut().flatten() {
        hook.client_config.ca_bundle = None;
    }
    let name = configuration.name_any();
    let api: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
    api.replace(&name, &PostParams::default(), &configuration).await.unwrap();
    world.healed("an emptied caBundle").await;

    let rubbish = json!({ "webhooks": configuration.webhooks.iter().flatten().map(|hook| {
        json!({ "name": hook.name, "clientConfig": { "caBundle": "Cg==" } })
    }).collect::<Vec<_>>() });
    let strategic = Patch::Strategic(&rubbish);
    // the API server may refuse a bundle without a certificate, which is as good
    let _ = api.patch(&name, &PatchParams::default(), &strategic).await;
    world.healed("a tampered caBundle").await;

    let secrets = world.secrets();
    let serving = secrets.get(&name).await.unwrap();
    secrets.delete(&name, &DeleteParams::default()).await.unwrap();
    until("the Secret is there again", HEALING * 2, async || {
        secrets.get_opt(&name).await.unwrap().is_some_and(|new| new.uid() != serving.uid())
    })
    .await;
    world.healed("a deleted Secret").await;

    for secret in [name.clone(), format!("{name}-ca")] {
        secrets.delete(&secret, &DeleteParams::default()).await.unwrap();
    }
    until("both Secrets are there again", HEALING * 2, async || {
        secrets.get_opt(&format!("{name}-ca")).await.unwrap().is_some()
            && secrets.get_opt(&name).await.unwrap().is_some()
    })
    .await;
    world.healed("a deleted Secret and a deleted authority").await;
    world.webhook.check().unwrap();
    world.cluster.stop();
}
