//! The chart on nodes that run containers: images of our programs, Pods under Pod Security
//! `restricted`, the webhook called through its Service, and what happens to Pods under load.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod, Secret};
use kube::Client;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use vela_tests::cluster::Cluster;
use vela_tests::controlplane::Programs;
use vela_tests::deploy::{Binaries, NAMESPACE, RELEASE, apply};
use vela_tests::material;
use vela_tests::node::{self, ADDRESS, Image, Node};
use vela_tests::progress::Step;
use vela_tests::release::{ADMISSION, Helm, admits, application, applications, chart};

use super::lifecycle::{Probe, edit, runs, typed};

const WEBHOOK: &str = "app.kubernetes.io/name=vela-core-webhook";
const CONTROLLER: &str = "app.kubernetes.io/name=vela-core";
/// Those that ask admission while something happens to its Pods.
const CLIENTS: usize = 8;

/// Runs this part in namespaces of its own; says why if that is not possible here.
pub(super) fn outside(program: &Path, is_dev: bool) -> Result<()> {
    let missing = node::missing();
    if !missing.is_empty() {
        eprintln!(
            "\n  SKIPPED: the chart on a real node. This machine lacks {}.\n  As root on Debian: \
             apt-get install containerd runc containernetworking-plugins iproute2 iptables\n",
            missing.join(", ")
        );
        return Ok(());
    }
    Programs::with_node()?;
    let root = material::target().join("run");
    fs::create_dir_all(&root)?;
    let dir = tempdir(&root)?;
    let mut command = Command::new("unshare");
    command.args(node::NAMESPACES).arg("--").arg(program);
    command.args(["charts", "--inside"]).arg(&dir);
    if is_dev {
        command.arg("--dev");
    }
    let status = command.status().context("cannot run unshare");
    // Containers and their images; the logs of the control plane stay.
    let _ = fs::remove_dir_all(&dir);
    let status = status?;
    ensure!(status.success(), "the chart on a real node: {status}");
    // Inside, the process has number 1, which the tidying of old runs takes for alive.
    for entry in fs::read_dir(&root)?.filter_map(Result::ok) {
        if entry.file_name().to_string_lossy().starts_with("nodes-1-") {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

fn tempdir(root: &Path) -> Result<PathBuf> {
    let dir = root.join(format!("containers-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// The part itself, inside the namespaces.
pub(super) async fn inside(dir: &Path, binaries: &Binaries) -> Result<()> {
    node::prepare()?;
    let cluster = Cluster::start_for_nodes("nodes", ADDRESS).await?;
    let outcome = scenario(&cluster, dir, binaries).await;
    if outcome.is_err() {
        eprintln!("logs: {}", cluster.dir().display());
    }
    cluster.stop();
    outcome
}

async fn scenario(cluster: &Cluster, dir: &Path, binaries: &Binaries) -> Result<()> {
    let client = cluster.client().await?;
    let step = Step::start("making images of our programs");
    let user = "65532:65532";
    let programs = Programs::with_node()?;
    let (pause, kubectl) = (programs.path("pause"), programs.path("kubectl"));
    let image = |tag, programs: &[(&Path, &str)]| Image::make(dir, tag, programs, user);
    let images = [
        image("local/pause:1", &[(&pause, "pause")])?,
        image("local/vela-webhook:test", &[(&binaries.webhook, "vela-webhook")])?,
        image("local/vela-controller:test", &[(&binaries.controller, "vela-controller")])?,
        image("local/kubectl:1", &[(&kubectl, "kubectl"), (Path::new("/bin/sh"), "bin/sh")])?,
    ];
    step.done();

    let step = Step::start("starting two nodes");
    let nodes = [
        Node::start(cluster, 0, dir, &images).await?,
        Node::start(cluster, 1, dir, &images).await?,
    ];
    step.done();

    let step = Step::start("install: both deployables ready as Pods under Pod Security restricted");
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE, "labels": {
            "pod-security.kubernetes.io/enforce": "restricted",
            "pod-security.kubernetes.io/enforce-version": "latest",
        } },
    });
    apply(&client, &namespace).await?;
    let helm = Helm::new(&cluster.dir().join("helm"))?.on(cluster.kubeconfig());
    if let Err(error) = put(&helm, "install", &[]).await {
        return Err(error).context(state(&client).await);
    }
    ensure!(pods(&client, WEBHOOK).await?.len() == 2, "two webhook Pods");
    ensure!(pods(&client, CONTROLLER).await?.len() == 1, "one controller Pod");
    step.done();

    let step = Step::start("an Application through the webhook's Service");
    eventually("admission", Duration::from_secs(60), async || admits(&client).await).await?;
    let application = typed(application("app", &json!("local/pause:1")))?;
    applications(client.clone()).create(&PostParams::default(), &application).await?;
    runs(&client, "app").await?;
    step.done();

    let step = Step::start("helm test");
    let test = helm.clone();
    let tested =
        tokio::task::spawn_blocking(move || test.run(&["test", RELEASE, "--timeout", "180s"]));
    if let Err(error) = tested.await? {
        return Err(error).context(state(&client).await);
    }
    step.done();

    let step = Step::start("certificate replaced in the Secret, picked up from the mounted volume");
    let probe = Probe::start(&client, CLIENTS);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    secrets.delete(ADMISSION, &DeleteParams::default()).await?;
    let since = Instant::now();
    eventually("the new certificate in all Pods", Duration::from_secs(180), async || {
        let wanted = end_of_validity(&secrets).await?;
        for pod in pods(&client, WEBHOOK).await? {
            let served = served_until(&pod).await?;
            ensure!(served == wanted, "{served} is served, {wanted} is stored");
        }
        Ok(())
    })
    .await?;
    let (asked, failures) = probe.stop().await?;
    report("certificate", asked, &failures, since)?;
    step.done();

    let step = Step::start("rolling update of webhook and controller under load");
    let before: Vec<_> = pods(&client, WEBHOOK).await?.iter().filter_map(uid).collect();
    let probe = Probe::start(&client, CLIENTS);
    let since = Instant::now();
    let annotations = ["webhook", "controller"].map(|one| format!("{one}.podAnnotations.turn=a"));
    put(&helm, "upgrade", &["--set", &annotations.join(",")]).await?;
    eventually("the old Pods' end", Duration::from_secs(120), async || {
        let now = pods(&client, WEBHOOK).await?;
        ensure!(now.len() == 2 && now.iter().filter_map(uid).all(|one| !before.contains(&one)));
        Ok(())
    })
    .await?;
    let (asked, failures) = probe.stop().await?;
    report("rolling update", asked, &failures, since)?;
    step.done();

    for node in &nodes {
        let step = Step::start(format!("{} drained under load", node.name()));
        let probe = Probe::start(&client, CLIENTS);
        let since = Instant::now();
        drain(&client, node.name()).await?;
        let (asked, failures) = probe.stop().await?;
        report("drain", asked, &failures, since)?;
        cordon(&client, node.name(), false).await?;
        step.done();
    }

    let step = Step::start("rollback, uninstall");
    let rollback = helm.clone();
    let back = tokio::task::spawn_blocking(move || {
        rollback.run(&["rollback", RELEASE, "1", "--wait", "--timeout", "180s"])
    });
    back.await??;
    eventually("admission", Duration::from_secs(60), async || admits(&client).await).await?;
    edit(&client, "app", "local/pause:1", 2).await?;
    runs(&client, "app").await?;
    applications(client.clone()).delete("app", &DeleteParams::default()).await?;
    eventually("the Application's end", Duration::from_secs(60), async || {
        ensure!(applications(client.clone()).get_opt("app").await?.is_none());
        Ok(())
    })
    .await?;
    let removal = helm.clone();
    let gone = tokio::task::spawn_blocking(move || {
        removal.run(&["uninstall", RELEASE, "--wait", "--timeout", "180s"])
    });
    gone.await??;
    eventually("the end of all Pods", Duration::from_secs(120), async || {
        let all: Api<Pod> = Api::all(client.clone());
        let left = all.list(&ListParams::default()).await?.items;
        ensure!(left.is_empty(), "{} Pods are left", left.len());
        Ok(())
    })
    .await?;
    step.done();
    Ok(())
}

fn report(what: &str, asked: usize, failures: &[String], since: Instant) -> Result<()> {
    let seconds = since.elapsed().as_secs_f64();
    eprintln!("       {what}: {asked} questions in {seconds:.0} s, {} failed", failures.len());
    ensure!(failures.is_empty(), "{what}: {failures:#?}");
    ensure!(asked >= CLIENTS, "{what}: admission was asked {asked} times only");
    Ok(())
}

async fn put(helm: &Helm, verb: &str, extra: &[&str]) -> Result<()> {
    let values = [
        "webhook.image.repository=local/vela-webhook",
        "webhook.image.tag=test",
        "webhook.image.pullPolicy=Never",
        "controller.image.repository=local/vela-controller",
        "controller.image.tag=test",
        "controller.image.pullPolicy=Never",
        "test.app.repository=local/pause",
        "test.app.tag=1",
        "test.k8s.repository=local/kubectl",
        "test.k8s.tag=1",
    ]
    .join(",");
    let mut args = vec!["--set-string".to_owned(), values];
    args.extend(extra.iter().map(|&arg| arg.to_owned()));
    let (helm, verb) = (helm.clone(), verb.to_owned());
    tokio::task::spawn_blocking(move || {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        helm.put(&verb, &chart(), &args).map(|_| ())
    })
    .await?
}

/// The Pods that are not on their way out.
async fn pods(client: &Client, selector: &str) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let all = api.list(&ListParams::default().labels(selector)).await?.items;
    Ok(all.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect())
}

fn uid(pod: &Pod) -> Option<String> {
    pod.metadata.uid.clone()
}

/// What the Pods say, for the error message.
async fn state(client: &Client) -> String {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let Ok(all) = api.list(&ListParams::default()).await else { return String::new() };
    let mut text = String::new();
    for pod in all {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let status = pod.status.unwrap_or_default();
        text += &format!("{name}: {:?} ", status.phase);
        for container in status.container_statuses.unwrap_or_default() {
            text += &format!("{:?} ", container.state);
        }
        let logs = api.logs(&name, &kube::api::LogParams::default()).await.unwrap_or_default();
        let tail: Vec<&str> = logs.lines().rev().take(5).collect();
        text += &format!("{tail:?}\n");
    }
    text
}

async fn eventually(
    what: &str,
    limit: Duration,
    mut condition: impl AsyncFnMut() -> Result<()>,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        match condition().await {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > deadline => {
                return Err(error).with_context(|| format!("timed out waiting for {what}"));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn end_of_validity(secrets: &Api<Secret>) -> Result<i64> {
    let data = secrets.get(ADMISSION).await?.data.unwrap_or_default();
    let text = data.get("tls.crt").context("no certificate in the Secret")?;
    let facts = vela_certs::bundle::Facts::of_pem(&String::from_utf8_lossy(&text.0));
    Ok(facts.context("no certificate in the Secret")?.not_after.as_second())
}

/// What a Pod's metrics say about the certificate it serves.
async fn served_until(pod: &Pod) -> Result<i64> {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    let address = address.context("a Pod without an address")?;
    let mut stream = tokio::net::TcpStream::connect((address.as_str(), 8080)).await?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let name = "vela_webhook_certificate_not_after_seconds ";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value: f64 = line.context("the metric is missing")?.trim().parse()?;
    #[allow(clippy::cast_possible_truncation, reason = "seconds since 1970")]
    Ok(value as i64)
}

async fn cordon(client: &Client, node: &str, is_cordoned: bool) -> Result<()> {
    let nodes: Api<NodeObject> = Api::all(client.clone());
    let patch = json!({ "spec": { "unschedulable": is_cordoned } });
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// As `kubectl drain`: no new Pods, and an eviction of each, again while a budget says no.
async fn drain(client: &Client, node: &str) -> Result<()> {
    cordon(client, node, true).await?;
    let deadline = Instant::now() + Duration::from_secs(180);
    let all: Api<Pod> = Api::all(client.clone());
    let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
    loop {
        let list = all.list(&here).await?.items;
        if list.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{node} still has {} Pods", list.len());
        for pod in list.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            let namespace = pod.metadata.namespace.clone().unwrap_or_default();
            let name = pod.metadata.name.clone().unwrap_or_default();
            let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            match api.evict(&name, &EvictParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 429) => {}
                Err(error) => bail!("{name} cannot be evicted: {error}"),
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
