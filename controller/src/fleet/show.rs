//! `vela-controller shards`: shows from the Leases which replica holds which buckets. Read-only.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use vela_api::Application;
use vela_api::names::annotation;
use vela_shard::{PoolName, Slot, Table, bucket_of};

use super::lease::{self, Names};
use super::working::Worked;
use crate::command::output;
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
    ended(command::block_on(answer(&flags)).map_err(Into::into).and_then(|answer| answer))
}

/// Prints the answer of a command, or why there is none.
pub(super) fn ended(answer: anyhow::Result<String>) -> ExitCode {
    match answer {
        Ok(text) => {
            output::show(&text);
            ExitCode::SUCCESS
        }
        Err(error) => output::failed(format!("{error:#}")),
    }
}

async fn answer(flags: &Flags) -> anyhow::Result<String> {
    let (client, _) = flags.kubeconfig.connect().await?;
    let api: Api<Lease> = Api::namespaced(client.clone(), &flags.namespace);
    let all = ListParams::default();
    // One list for the table and the members, so that the lines of the answer agree.
    let leases = tokio::time::timeout(Duration::from_secs(10), api.list(&all)).await??.items;
    let names = Names { root: flags.lease.clone() };
    match flags.question.as_slice() {
        [] => overview(&names, &leases, Timestamp::now()),
        [who, app] if who == "who" => {
            let (namespace, name) = app.split_once('/').unwrap_or_default();
            anyhow::ensure!(!name.is_empty(), "{app:?} is not NAMESPACE/NAME");
            // An Application that is not there yet would be in the default pool.
            let apps: Api<Application> = Api::namespaced(client, namespace);
            let found = tokio::time::timeout(Duration::from_secs(10), apps.get_opt(name)).await??;
            let pool = found
                .as_ref()
                .map_or("", |app| vela_api::annotation_of(&app.metadata, annotation::SHARD));
            owner(&names, &leases, (namespace, name), pool)
        }
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

/// How people read the name of a pool.
fn spoken(pool: &str) -> &str {
    if pool.is_empty() { "default" } else { pool }
}

/// A line for each member and one for each pool, and what is on its way.
fn overview(names: &Names, leases: &[Lease], now: Timestamp) -> anyhow::Result<String> {
    let table = table(names, leases)?;
    let mut text = format!(
        "{:<50} {:<12} {:>7} {:>6} {:>12} {:>8} {:>9}  {}\n",
        "MEMBER", "POOL", "BUCKETS", "WANTED", "APPLICATIONS", "BACKLOG", "RENEWED", "STATE"
    );
    for member in &table.members {
        let found = leases.iter().find(|found| {
            lease::observed(names, found).is_some_and(|observed| observed.id == member.id)
        });
        // The slot of the leader's duties is no bucket; its holder is marked in the last column.
        let held = table.held_by(&member.id).filter(|slot| *slot != Slot::Lead).count();
        let wanted = buckets(&table).filter(|slot| table.target(slot) == Some(&member.id)).count();
        let age = found.and_then(|found| found.spec.as_ref()?.renew_time.as_ref());
        let age = age.map_or_else(
            || "-".to_owned(),
            |at| format!("{:.1} s", now.duration_since(at.0).as_secs_f64()),
        );
        let note = |key| found.map_or("", |found| lease::annotation_of(found, key));
        let applications = or_dash(note(annotation::FLEET_APPLICATIONS));
        let backlog = match note(annotation::FLEET_BACKLOG) {
            "" => "-".to_owned(),
            backlog => format!("{backlog} s"),
        };
        let worked = Worked::from_text(note(annotation::FLEET_WORKED));
        let idle = table
            .held_by(&member.id)
            .filter(|slot| worked.as_ref().is_some_and(|worked| !worked.has(slot)))
            .count();
        let waits = format!("does not work on {idle} of its buckets");
        let mut state = Vec::new();
        if table.holder(&Slot::Lead) == Some(&member.id) {
            state.push("leads");
        }
        match found {
            None => state.push("its Lease is gone"),
            Some(found) if lease::holder(found).is_empty() => state.push("dead"),
            Some(_) if member.weight == 0 => state.push("leaves"),
            Some(_) if idle > 0 => state.push(&waits),
            Some(_) => {}
        }
        let (pool, state) = (spoken(&member.pool), state.join(", "));
        writeln!(
            text,
            "{:<50} {pool:<12} {held:>7} {wanted:>6} {applications:>12} {backlog:>8} {age:>9}  {state}",
            member.id
        )?;
    }
    for (pool, rows) in &table.pools {
        let of = |slot: &Slot| matches!(slot, Slot::Bucket(of, _) if of == pool);
        let moving = buckets(&table)
            .filter(|slot| of(slot) && table.holder(slot) != table.target(slot))
            .count();
        let free = buckets(&table).filter(|slot| of(slot) && table.holder(slot).is_none()).count();
        let note = match table.is_staffed(pool) {
            _ if rows.falls_back => ", no members: those of the default pool work for it",
            false if pool.is_empty() => ", no members: those of all pools work for it",
            false => ", no members",
            true => "",
        };
        let pool: &PoolName = pool;
        writeln!(
            text,
            "pool {}: {moving} buckets on their way, {free} without a holder{note}",
            spoken(pool)
        )?;
    }
    writeln!(text, "epoch {}", table.epoch)?;
    for found in leases {
        let name = lease::name(found);
        let is_elected = name == names.root || names.shard_of(name).is_some();
        if is_elected && lease::root(Some(found)).1 == vela_shard::Holder::Foreign {
            let holder = lease::holder(found);
            writeln!(text, "{name} is held by {holder}, which is no member: members wait")?;
        }
    }
    Ok(text)
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

fn buckets(table: &Table) -> impl Iterator<Item = Slot> + '_ {
    table.slots().filter(|slot| *slot != Slot::Lead)
}

fn owner(
    names: &Names,
    leases: &[Lease],
    (namespace, name): (&str, &str),
    pool: &str,
) -> anyhow::Result<String> {
    let table = table(names, leases)?;
    let bucket = bucket_of(namespace, name);
    let slot = table.slot(pool, bucket);
    let holder = table.holder(&slot).map_or("nobody", |id| &**id);
    let pool = match &slot {
        Slot::Bucket(pool, _) => spoken(pool),
        Slot::Lead => "",
    };
    let mut text = format!(
        "{namespace}/{name} is in bucket {bucket:02x} of pool {pool}, which {holder} holds"
    );
    if table.holder(&slot) != table.target(&slot) {
        let target = table.target(&slot).map_or("nobody", |id| &**id);
        write!(text, " and {target} shall have")?;
    }
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use vela_shard::BUCKETS;

    use super::*;

    /// The Lease of a shard of Go's.
    fn theirs() -> Lease {
        let mut lease = lease::renewed(lease::new("n", "kubevela-shard-1"), "us", 15, &[]);
        lease.spec.get_or_insert_default().holder_identity = Some("go_1".to_owned());
        lease
    }

    fn leases() -> (Names, Vec<Lease>) {
        let names = Names { root: "kubevela".to_owned() };
        let mut table = Table::new(BUCKETS);
        ["a_1", "b_2"].iter().for_each(|id| table.join(&(*id).into(), &"".into(), 1));
        table.join(&"c_3".into(), &"shard-0".into(), 1);
        let of = |pod: &str, id: &str| {
            let notes = [
                (annotation::FLEET_APPLICATIONS, "7".to_owned()),
                (annotation::FLEET_BACKLOG, "0.4".to_owned()),
                // Three of 256 are missing in the default pool, and all of the other one.
                (annotation::FLEET_WORKED, format!("master=3f{}fe", "f".repeat(60))),
            ];
            lease::renewed(lease::new("n", &names.member(pod)), id, 8, &notes)
        };
        let all = vec![
            lease::with_table(lease::new("n", &names.table()), &table, "a_1"),
            of("a", "a_1"),
            lease::emptied(of("b", "b_2"), Some("a_1")),
            of("other", "x"),
            of("c", "c_3"),
            theirs(),
        ];
        (names, all)
    }

    #[test]
    fn people_see_who_has_what_and_what_moves() {
        let (names, leases) = leases();
        let text = overview(&names, &leases, Timestamp::now()).unwrap();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1][..7], ["a_1", "default", "512", "128", "7", "0.4", "s"], "{text}");
        let state = lines[1][9..].join(" ");
        assert_eq!(state, "leads, does not work on 259 of its buckets", "{text}");
        assert_eq!(
            (lines[2][..4].to_vec(), *lines[2].last().unwrap()),
            (vec!["b_2", "default", "0", "128"], "dead")
        );
        assert_eq!(lines[3][..4], ["c_3", "shard-0", "0", "256"], "{text}");
        for line in [
            "pool default: 128 buckets on their way, 0 without a holder",
            "pool shard-0: 256 buckets on their way, 0 without a holder",
            "epoch 3",
            "kubevela-shard-1 is held by go_1, which is no member: members wait",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} in {text}");
        }
        let app = ("shop", "front");
        let text = owner(&names, &leases, app, "").unwrap();
        assert!(
            text.starts_with("shop/front is in bucket 0c of pool default, which a_1"),
            "{text}"
        );
        let text = owner(&names, &leases, app, "shard-0").unwrap();
        assert!(text.contains("of pool shard-0, which a_1 holds and c_3 shall have"), "{text}");
        let text = owner(&names, &leases, app, "gone").unwrap();
        assert!(text.contains("of pool default"), "{text}");
        let error = overview(&names, &[], Timestamp::now()).unwrap_err().to_string();
        assert!(error.contains("kubevela-shards") && error.contains("--sharding=auto"), "{error}");
    }
}
