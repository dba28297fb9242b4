//! `cargo xtask up`: a control plane, vela-rs on it, further clusters that join, and example Applications that run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use vela_tests::chart_server::{ChartServer, EXAMPLE};
use vela_tests::cluster::{Cluster, Pace};
use vela_tests::controlplane::Programs;
use vela_tests::deploy::{Binaries, Deployed, Options, Profile, Program, apply};
use vela_tests::fixtures::reaching_loopback;
use vela_tests::fleet;
use vela_tests::material;

use crate::exec::{Kind, binaries, gateway, members, with_members};
use crate::tree::Tree;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// End when the examples run: exit code 0, or 1 with the reason
    #[arg(long)]
    once: bool,
    /// Build the programs as they ship: minutes to build, quicker to run. Without it they are those of the tests
    #[arg(long)]
    release: bool,
    /// Definitions instead of the chart's, one JSON object a line
    #[arg(long, value_name = "FILE.jsonl")]
    definitions: Option<PathBuf>,
    /// Applications to apply instead of docs/examples; may repeat
    #[arg(long, value_name = "FILE.yaml")]
    file: Vec<PathBuf>,
    /// Use the cluster of this kubeconfig instead of starting one
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// So many further clusters join under the names member-1, member-2, ..., and docs/examples/clusters is applied, too
    #[arg(long, value_name = "N", default_value_t = 0)]
    clusters: usize,
    /// So many replicas of the controller share the Applications (sharding.mode=auto), and who has what is shown
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=10))]
    replicas: u8,
    /// Seconds until the examples must run
    #[arg(long, default_value_t = 120)]
    deadline: u64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new()?;
    let profile = if args.release { Profile::Release } else { Profile::Dev };
    let binaries = programs(args, profile)?;
    let cluster = runtime.block_on(crate::exec::cluster(
        "up",
        args.kubeconfig.as_deref(),
        Pace::Unlimited,
    ))?;
    // The charts of the examples are served on loopback.
    let charts = runtime.block_on(ChartServer::of_examples_as_written())?;
    let options = Options { definitions: args.definitions.clone(), ..reaching_loopback() };
    let options = if args.clusters > 0 { with_members(options) } else { options };
    let options = if args.replicas > 1 { fleet::sharing(options) } else { options };
    let deployed = runtime.block_on(Deployed::start(&cluster, &binaries, &options))?;
    let replicas = runtime.block_on(fleet::replicas(&cluster, &deployed, args.replicas))?;
    let members = runtime.block_on(members(&cluster, args.clusters, Kind::Whole))?;
    let gateway = runtime.block_on(gateway(&cluster, &binaries, &options, args.clusters))?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = follow(args, &cluster, &deployed, &charts) => Some(outcome),
            _ = tokio::signal::ctrl_c() => None,
        }
    });
    let code = match outcome {
        None => Err(anyhow!("interrupted")),
        Some(Err(error)) if args.once => {
            eprintln!("error: {error:#}\nlogs: {}", cluster.dir().display());
            Ok(ExitCode::FAILURE)
        }
        Some(outcome) => {
            let names = outcome.unwrap_or_else(|error| {
                eprintln!("error: {error:#}");
                Vec::new()
            });
            if args.once {
                Ok(ExitCode::SUCCESS)
            } else {
                next_steps(&cluster, &members, &names, charts.address());
                if args.replicas > 1 {
                    show(&cluster, &binaries, &deployed, &replicas);
                }
                let stayed = runtime.block_on(stay(&cluster, &deployed, args.replicas > 1));
                eprintln!("\nstopping");
                stayed.map(|()| ExitCode::SUCCESS)
            }
        }
    };
    if args.kubeconfig.is_some() {
        runtime.block_on(crate::exec::leave(&cluster, &deployed.admission));
    }
    for replica in &replicas {
        replica.stop(Duration::from_secs(25))?;
    }
    gateway.map_or(Ok(()), |gateway| gateway.program.kill())?;
    let ended = deployed.stop(Duration::from_secs(15));
    members.iter().for_each(Cluster::stop);
    cluster.stop();
    ended?;
    code
}

/// Builds vela-rs and, if a cluster is to be started, the programs of one, side by side: each keeps only one core busy for much of
/// the time.
fn programs(args: &Args, profile: Profile) -> Result<Binaries> {
    std::thread::scope(|scope| {
        let cluster = args.kubeconfig.is_none().then(|| scope.spawn(Programs::ready));
        let binaries = binaries(profile, args.clusters)?;
        if let Some(cluster) = cluster {
            cluster.join().map_err(|_| anyhow!("the build of the control plane panicked"))??;
        }
        Ok(binaries)
    })
}

/// Applies the examples and follows them until all run.
async fn follow(
    args: &Args,
    cluster: &Cluster,
    deployed: &Deployed,
    charts: &ChartServer,
) -> Result<Vec<String>> {
    let client = cluster.client().await?;
    let objects = examples(args, charts)?;
    for object in &objects {
        apply(&client, object).await?;
    }
    let kind = GroupVersionKind::gvk("core.oam.dev", "v1beta1", "Application");
    let resource = ApiResource::from_gvk(&kind);
    let applications: Vec<(Api<DynamicObject>, String)> = objects
        .iter()
        .filter(|object| object["kind"] == "Application")
        .filter_map(|object| {
            let name = object["metadata"]["name"].as_str()?;
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
            Some((Api::namespaced_with(client.clone(), namespace, &resource), name.to_owned()))
        })
        .collect();
    if applications.is_empty() {
        bail!("the examples hold no Application");
    }
    let since = Instant::now();
    let mut tree = Tree::new();
    loop {
        deployed.check()?;
        cluster.check()?;
        let mut states = Vec::new();
        for (api, name) in &applications {
            let object = api.get(name).await.with_context(|| format!("Application {name}"))?;
            states.push(serde_json::to_value(&object)?);
        }
        tree.show(&states, since.elapsed());
        if states.iter().all(running) {
            tree.finish();
            eprintln!("  ok   running after {:.2} s", since.elapsed().as_secs_f64());
            return Ok(applications.into_iter().map(|(_, name)| name).collect());
        }
        if since.elapsed() > Duration::from_secs(args.deadline) {
            tree.finish();
            let why: Vec<String> = states.iter().filter(|app| !running(app)).map(reason).collect();
            bail!("not running after {} s: {}", args.deadline, why.join("; "));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn running(application: &Value) -> bool {
    let status = &application["status"];
    status["status"] == "running"
        && status["observedGeneration"] == application["metadata"]["generation"]
}

/// Why an Application does not run, from its conditions and services.
fn reason(application: &Value) -> String {
    let status = &application["status"];
    let name = application["metadata"]["name"].as_str().unwrap_or("?");
    let phase = status["status"].as_str().unwrap_or("no status yet");
    let mut reason = format!("{name} is {phase:?}");
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for condition in conditions.iter().filter(|one| one["status"] != "True") {
        let text = |key: &str| condition[key].as_str().unwrap_or_default();
        reason += &format!(", {} {}: {}", text("type"), text("reason"), text("message"));
    }
    let services = status["services"].as_array().map(Vec::as_slice).unwrap_or_default();
    for service in services.iter().filter(|one| one["healthy"] != true) {
        let text = |key: &str| service[key].as_str().unwrap_or_default();
        reason += &format!(", {} not healthy: {}", text("name"), text("message"));
    }
    reason
}

fn examples(args: &Args, charts: &ChartServer) -> Result<Vec<Value>> {
    let mut files = args.file.clone();
    if files.is_empty() {
        let mut dirs = vec![material::workspace().join("docs/examples")];
        if args.clusters > 0 {
            dirs.push(material::workspace().join("docs/examples/clusters"));
        }
        for dir in dirs {
            for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
                files.push(entry?.path());
            }
        }
        files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
        files.sort();
    }
    let mut objects: Vec<Value> = Vec::new();
    for file in &files {
        objects.extend(documents(file, charts)?);
    }
    Ok(objects)
}

fn documents(file: &Path, charts: &ChartServer) -> Result<Vec<Value>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let text = text.replace(EXAMPLE, charts.address());
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| file.display().to_string())?;
    Ok(documents.into_iter().filter(Value::is_object).collect())
}

fn next_steps(cluster: &Cluster, members: &[Cluster], names: &[String], charts: &str) {
    let name = names.first().map_or("first-app", String::as_str);
    let joined: String = (1..)
        .zip(members)
        .map(|(index, member)| format!("member-{index}: {}\n", member.kubeconfig().display()))
        .collect();
    let kubeconfig = cluster.kubeconfig();
    println!(
        "\nThe control plane stays up until Ctrl-C. In another terminal:\n\n  \
         export KUBECONFIG={}\n  \
         kubectl get applications,deployments,services,pods\n  \
         kubectl edit application {name}     # change an image, or misspell a component type\n  \
         kubectl delete application {name}   # nothing stays behind\n\n\
         {joined}Charts (docs/examples/charts): http://{charts}/charts\n\
         Logs, audit log and certificates: {}\n",
        kubeconfig.display(),
        cluster.dir().display()
    );
}

/// Says who has what, and how to see it change.
fn show(cluster: &Cluster, binaries: &Binaries, deployed: &Deployed, replicas: &[Program]) {
    let command = Command::new(&binaries.controller)
        .arg("shards")
        .env("KUBECONFIG", cluster.kubeconfig())
        .output();
    if let Ok(output) = command {
        println!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let pids: Vec<String> = std::iter::once(&deployed.controller)
        .chain(replicas)
        .filter_map(Program::pid)
        .map(|pid| pid.to_string())
        .collect();
    println!(
        "Who has what, and how it moves when a replica dies (processes {}):\n\n  \
         watch -n 1 {} shards     # and kill -9 one of them\n",
        pids.join(", "),
        binaries.controller.display()
    );
}

/// Until Ctrl-C, or until something ends that should not. Of several replicas one may be killed.
async fn stay(cluster: &Cluster, deployed: &Deployed, has_replicas: bool) -> Result<()> {
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(()),
            () = tokio::time::sleep(Duration::from_millis(500)) => {
                if !has_replicas {
                    deployed.check()?;
                }
                cluster.check()?;
            }
        }
    }
}
