//! `cargo xtask exec -- CMD`: CMD on a control plane with vela-rs deployed on it.
//!
//! Everything ends with CMD, and the exit code is CMD's. Its environment:
//!
//! | variable | what |
//! |---|---|
//! | `KUBECONFIG` | the administrator |
//! | `AUDIT_LOG` | the API server's audit log |
//! | `CONTROLLER_PID`, `WEBHOOK_PID` | process ids |
//! | `CONTROLLER_LOG`, `WEBHOOK_LOG` | their output |
//! | `WEBHOOK_URL`, `CA_FILE` | where the webhook answers, and who signed its certificate |
//! | `MEMBER_1_KUBECONFIG`, `MEMBER_1_AUDIT_LOG`, ... | the clusters that joined with `--members N`: etcd and an API server each (with `--whole-members` controllers and a node, too), and a gateway for clients |
//! | `KILL_CMD`, `START_CMD` | `kill -9` of the controller; start it again and wait until ready |
//! | `RUN_DIR` | the folder with all of it |

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;

use anyhow::{Context, Result};
use vela_tests::cluster::{Cluster, Pace};
use vela_tests::deploy::{Admission, Binaries, Deployed, Gateway, Options, Profile, Program};

use crate::control::Control;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    setup: Setup,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What is deployed.
#[derive(clap::Args, Clone)]
pub(crate) struct Setup {
    /// Definitions instead of the chart's, one JSON object a line
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) definitions: Option<PathBuf>,
    /// A further flag for the controller; may repeat
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub(crate) controller_flag: Vec<String>,
    /// A further flag for the webhook; may repeat
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    webhook_flag: Vec<String>,
    /// A value for the chart, as helm's --set takes it; may repeat
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Build the programs in the dev profile: quicker to build, slower to run
    #[arg(long)]
    dev: bool,
    /// This many further clusters join under the names member-1, member-2, ...
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) members: usize,
    /// The further clusters have controllers and a node, too, on which containers only seem to run
    #[arg(long)]
    whole_members: bool,
    #[command(flatten)]
    pace: Paced,
    /// Use the cluster of this kubeconfig instead of starting one; there is no audit log then
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl Setup {
    fn kind(&self) -> Kind {
        if self.whole_members { Kind::Whole } else { Kind::Lean }
    }
}

/// How a control plane of our own is started.
#[derive(clap::Args, Clone)]
pub(crate) struct Paced {
    /// Leave controller manager and scheduler the rate limits they come with; else they have none
    #[arg(long)]
    shipped_pace: bool,
}

impl Paced {
    pub(crate) fn pace(&self) -> Pace {
        if self.shipped_pace { Pace::AsShipped } else { Pace::Unlimited }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    under(&args.setup, &args.command)
}

/// Runs a command with everything deployed around it.
pub(crate) fn under(args: &Setup, command: &[OsString]) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new()?;
    let profile = if args.dev { Profile::Dev } else { Profile::Release };
    let binaries = binaries(profile, args.members)?;
    let started = cluster("exec", args.kubeconfig.as_deref(), args.pace.pace());
    let cluster = Arc::new(runtime.block_on(started)?);
    let options = options(args);
    let deployed = runtime.block_on(Deployed::start(&cluster, &binaries, &options))?;
    let controller = Arc::new(deployed.controller);
    let control = Control::start(Arc::clone(&cluster), Arc::clone(&controller), runtime.handle())?;
    let members = runtime.block_on(members(&cluster, args.members, args.kind()))?;
    let gateway = runtime.block_on(gateway(&cluster, &binaries, &options, args.members))?;

    let mut command = prepared(command, &cluster, &controller, &deployed.webhook, &control)?;
    for (index, member) in (1..).zip(&members) {
        command.env(format!("MEMBER_{index}_KUBECONFIG"), member.kubeconfig());
        command.env(format!("MEMBER_{index}_AUDIT_LOG"), member.audit_log());
    }
    let interactive = std::io::stdin().is_terminal();
    let status = cluster.watchdog().foreground(&mut command, interactive)?;

    report_crashes(&controller, &deployed.webhook, &control);
    controller.kill()?;
    if args.kubeconfig.is_some() {
        runtime.block_on(leave(&cluster, &deployed.admission));
    }
    deployed.webhook.kill()?;
    gateway.map_or(Ok(()), |gateway| gateway.program.kill())?;
    members.iter().for_each(Cluster::stop);
    cluster.stop();
    Ok(code(status))
}

/// What becomes of objects in a cluster that joins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing: etcd and an API server.
    Lean,
    /// What becomes of them in a cluster.
    Whole,
}

/// Further clusters that join.
pub(crate) async fn members(hub: &Cluster, count: usize, kind: Kind) -> Result<Vec<Cluster>> {
    let mut all = Vec::new();
    for index in 1..=count {
        let name = format!("member-{index}");
        let member = match kind {
            Kind::Lean => Cluster::start_lean(&name).await?,
            Kind::Whole => Cluster::start(&name).await?,
        };
        vela_tests::members::join(hub, &member, &name, vela_tests::members::port(&member)?).await?;
        all.push(member);
    }
    Ok(all)
}

/// The programs; the gateway only where clusters join.
pub(crate) fn binaries(profile: Profile, members: usize) -> Result<Binaries> {
    if members == 0 { Binaries::build(profile) } else { Binaries::with_gateway(profile) }
}

/// The gateway, through which clients reach members; without members there is none.
pub(crate) async fn gateway(
    hub: &Cluster,
    binaries: &Binaries,
    options: &Options,
    members: usize,
) -> Result<Option<Gateway>> {
    if members == 0 { Ok(None) } else { Gateway::start(hub, binaries, options).await.map(Some) }
}

/// What the programs need to deploy to clusters on loopback.
pub(crate) fn with_members(options: Options) -> Options {
    let Options { mut values, mut controller_flags, .. } = options.clone();
    values.push("multicluster.enabled=true".to_owned());
    controller_flags.push("--allow-loopback-clusters".to_owned());
    Options { values, controller_flags, ..options }
}

/// A cluster that lives on must not call a webhook that has gone.
pub(crate) async fn leave(cluster: &Cluster, admission: &Admission) {
    if let Err(error) = admission.close(cluster).await {
        eprintln!("warning: admission of the cluster still names our address: {error:#}");
    }
}

/// A control plane of our own, or the one of a kubeconfig.
pub(crate) async fn cluster(name: &str, kubeconfig: Option<&Path>, pace: Pace) -> Result<Cluster> {
    match kubeconfig {
        Some(kubeconfig) => Cluster::attach(name, kubeconfig).await,
        None => Cluster::start_at(name, pace).await,
    }
}

/// Like a new installation, which applies Applications under the identity of their authors. With
/// definitions of one's own like an installation that was upgraded from the reference, whose
/// definitions those are: it continues with the controller's rights, which is what the recordings
/// show. `--set` overrides either.
fn options(args: &Setup) -> Options {
    let mut values = Vec::new();
    if args.definitions.is_some() {
        values.push("authentication.enabled=false".to_owned());
    }
    let options = Options {
        definitions: args.definitions.clone(),
        controller_flags: args.controller_flag.clone(),
        controller_env: Vec::new(),
        webhook_flags: args.webhook_flag.clone(),
        gateway_flags: Vec::new(),
        values,
    };
    let Options { mut values, controller_flags, .. } =
        if args.members > 0 { with_members(options.clone()) } else { options.clone() };
    // What is asked for comes last.
    values.extend(args.set.iter().cloned());
    Options { values, controller_flags, ..options }
}

fn prepared(
    command: &[OsString],
    cluster: &Cluster,
    controller: &Program,
    webhook: &Program,
    control: &Control,
) -> Result<Command> {
    let (program, rest) = command.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(rest);
    let pid = |program: &Program| program.pid().map(|pid| pid.to_string()).unwrap_or_default();
    command
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("AUDIT_LOG", cluster.audit_log())
        .env("CONTROLLER_PID", pid(controller))
        .env("CONTROLLER_LOG", controller.log())
        .env("WEBHOOK_PID", pid(webhook))
        .env("WEBHOOK_LOG", webhook.log())
        .env("WEBHOOK_URL", webhook.url())
        .env("CA_FILE", cluster.dir().join("webhook-ca.crt"))
        .env("KILL_CMD", control.command("kill"))
        .env("START_CMD", control.command("start"))
        .env("RUN_DIR", cluster.dir());
    Ok(command)
}

/// A program that went down by itself must not go unnoticed behind CMD's exit code.
fn report_crashes(controller: &Program, webhook: &Program, control: &Control) {
    if let Err(error) = webhook.check() {
        eprintln!("warning: {error:#}");
    }
    if !control.killed()
        && let Err(error) = controller.check()
    {
        eprintln!("warning: {error:#}");
    }
}

/// The exit code a shell would report.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
