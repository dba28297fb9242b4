//! `vela-controller shards`: shows from the Leases which replica holds which buckets. Read-only.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use vela_api::names::annotation;
use vela_shard::{BUCKETS, Table, bucket_of};

use super::lease::{self, Names};
use crate::command::{self, KubeconfigArgs};

/// The command.
pub const COMMAND: &str = "shards";

/// Shows which replica reconciles which Applications.
#[derive(Debug, Parser)]
#[command(name = "vela-controller shards")]
struct Flags {
    /// `who NAMESPACE/NAME`: the replica that reconciles this Application.
    #[arg(num_args = 0..=2, value_names = ["who", "NAMESPACE/NAME"])]
    question: Vec<String>,
    #[command(flatten)]
    kubeconfig: KubeconfigArgs,
    /// Namespace of the Leases.
    #[arg(long, default_value = "vela-system")]
    namespace: String,
    /// Name of the Lease that controllers elect on.
    #[arg(long, default_value = "kubevela")]
    lease: String,
}

/// Answers, or says why not.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let flags: Flags = match command::parsed(arguments) {
        Ok(flags) => flags,
        Err(ended) => return ended,
    };
    say(&command::block_on(answer(&flags)).map_err(Into::into).and_then(|answer| answer))
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a command for people")]
fn say(answer: &anyhow::Result<String>) -> ExitCode {
    match answer {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn answer(flags: &Flags) -> anyhow::Result<String> {
    let (client, _) = flags.kubeconfig.connect().await?;
    let api: Api<Lease> = Api::namespaced(client, &flags.namespace);
    let all = ListParams::default();
    // One list for the table and the members, so that the lines of the answer agree.
    let leases = tokio::time::timeout(Duration::from_secs(10), api.list(&all)).await??.items;
    let names = Names { root: flags.lease.clone() };
    match flags.question.as_slice() {
        [] => overview(&names, &leases, Timestamp::now()),
        [who, app] if who == "who" => owner(&names, &leases, app),
        _ => anyhow::bail!("ask nothing, or: who NAMESPACE/NAME"),
    }
}

fn table(names: &Names, leases: &[Lease]) -> anyhow::Result<Table> {
    let found = leases.iter().find(|found| lease::name(found) == names.table());
    let Some(found) = found else {
        anyhow::bail!("there is no Lease {}: no replica runs with --sharding=auto", names.table())
    };
    Ok(lease::table(found)?)
}

/// A line for each member, and what is on its way.
fn overview(names: &Names, leases: &[Lease], now: Timestamp) -> anyhow::Result<String> {
    let table = table(names, leases)?;
    let mut text = format!(
        "{:<50} {:>7} {:>6} {:>12} {:>9}  {}\n",
        "MEMBER", "BUCKETS", "WANTED", "APPLICATIONS", "RENEWED", "STATE"
    );
    for member in &table.members {
        let found = leases.iter().find(|found| {
            lease::observed(names, found).is_some_and(|observed| observed.id == member.id)
        });
        // The slot of the leader's duties is no bucket; its holder is marked in the last column.
        let held = table.held_by(&member.id).filter(|slot| *slot < BUCKETS).count();
        let wanted = (0..BUCKETS).filter(|slot| table.target(*slot) == Some(&member.id)).count();
        let age = found.and_then(|found| found.spec.as_ref()?.renew_time.as_ref());
        let age = age.map_or_else(
            || "-".to_owned(),
            |at| format!("{:.1} s", now.duration_since(at.0).as_secs_f64()),
        );
        let applications =
            found.map_or("-", |found| lease::annotation_of(found, annotation::FLEET_APPLICATIONS));
        let mut state = Vec::new();
        if table.holder(table.lead()) == Some(&member.id) {
            state.push("leads");
        }
        match found {
            None => state.push("its Lease is gone"),
            Some(found) if lease::holder(found).is_empty() => state.push("dead"),
            Some(_) if member.weight == 0 => state.push("leaves"),
            Some(_) => {}
        }
        let state = state.join(", ");
        writeln!(
            text,
            "{:<50} {held:>7} {wanted:>6} {applications:>12} {age:>9}  {state}",
            member.id
        )?;
    }
    let moving = (0..BUCKETS).filter(|slot| table.holder(*slot) != table.target(*slot)).count();
    let free = (0..BUCKETS).filter(|slot| table.holder(*slot).is_none()).count();
    writeln!(
        text,
        "epoch {}, {moving} buckets on their way, {free} without a holder",
        table.epoch
    )?;
    let root = leases.iter().find(|found| lease::name(found) == names.root);
    if lease::root(root).1 == vela_shard::Holder::Foreign {
        let holder = root.map_or("", lease::holder);
        writeln!(text, "{} is held by {holder}, which is no member: members wait", names.root)?;
    }
    Ok(text)
}

fn owner(names: &Names, leases: &[Lease], app: &str) -> anyhow::Result<String> {
    let Some((namespace, name)) = app.split_once('/') else {
        anyhow::bail!("{app:?} is not NAMESPACE/NAME");
    };
    let table = table(names, leases)?;
    let bucket = bucket_of(namespace, name);
    let slot = usize::from(bucket);
    let holder = table.holder(slot).map_or("nobody", |id| &**id);
    let mut text = format!("{app} is in bucket {bucket:02x}, which {holder} holds");
    if table.holder(slot) != table.target(slot) {
        let target = table.target(slot).map_or("nobody", |id| &**id);
        write!(text, " and {target} shall have")?;
    }
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leases() -> (Names, Vec<Lease>) {
        let names = Names { root: "kubevela".to_owned() };
        let mut table = Table::new(BUCKETS);
        ["a_1", "b_2"].iter().for_each(|id| table.join(&(*id).into(), 1));
        let of = |pod: &str, id: &str| {
            let notes = [(annotation::FLEET_APPLICATIONS, "7".to_owned())];
            lease::renewed(lease::new("n", &names.member(pod)), id, 8, &notes)
        };
        let all = vec![
            lease::with_table(lease::new("n", &names.table()), &table, "a_1"),
            of("a", "a_1"),
            lease::emptied(of("b", "b_2"), Some("a_1")),
            of("other", "x"),
        ];
        (names, all)
    }

    #[test]
    fn people_see_who_has_what_and_what_moves() {
        let (names, leases) = leases();
        let text = overview(&names, &leases, Timestamp::now()).unwrap();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1][..4], ["a_1", "256", "128", "7"], "{text}");
        assert_eq!(*lines[1].last().unwrap(), "leads", "{text}");
        assert_eq!(
            (lines[2][..3].to_vec(), *lines[2].last().unwrap()),
            (vec!["b_2", "0", "128"], "dead")
        );
        assert!(
            text.ends_with("epoch 2, 128 buckets on their way, 0 without a holder\n"),
            "{text}"
        );
        let text = owner(&names, &leases, "shop/front").unwrap();
        assert!(text.starts_with("shop/front is in bucket 0c, which a_1 holds"), "{text}");
        assert!(owner(&names, &leases, "front").is_err());
        let error = overview(&names, &[], Timestamp::now()).unwrap_err().to_string();
        assert!(error.contains("kubevela-shards") && error.contains("--sharding=auto"), "{error}");
    }
}
