//! KubeVela's client moves Applications between pools of a fleet (`vela up NAME --shard-id POOL`), while they are edited and while they
//! are deleted.
//!
//! `VELA_CLIENT` names the client, as for `original_client`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kube::api::DeleteParams;
use vela_tests::fixtures::until;
use vela_tests::fleet;
use vela_tests::release::applications;

use super::fleet::{LABEL, LIMIT, World, names};
use super::original_client::client;

impl World {
    /// Moves an Application, and returns what the client said. It writes what it has read, so somebody else's write makes it fail.
    async fn up(&self, client: &Path, name: &str, pool: &str) -> Output {
        let mut command = Command::new("timeout");
        command.arg(LIMIT.as_secs().to_string()).arg(client);
        command.args(["up", name, "--namespace=default", "--shard-id", pool]);
        command.env("KUBECONFIG", self.cluster.kubeconfig()).env("HOME", self.cluster.dir());
        tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
    }

    async fn labels(&self, name: &str) -> BTreeSet<String> {
        let kinds = ["Application", "ApplicationRevision", "ResourceTracker"];
        fleet::labels_of(&self.client, &kinds, name, LABEL).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_moves_applications_that_are_edited_and_deleted() {
    let Some(client): Option<PathBuf> = client() else { return };
    let mut world = World::of("fleet-client", &[]).await;
    world.add_to_pool("controller-gold", "gold").await;
    world.apply_all("0").await;
    world.edit_all("1", LIMIT).await;
    let all: Vec<String> = names().collect();
    let moved = &all[..3];
    for (round, pool) in ["gold", "master", "gold", "master"].into_iter().enumerate() {
        let from = world.position();
        let value = format!("round-{round}");
        let moves = async {
            for name in moved {
                until(&format!("{name} is moved"), LIMIT, async || {
                    world.up(&client, name, pool).await.status.success()
                })
                .await;
            }
        };
        let edits = world.edit_all(&value, LIMIT);
        tokio::join!(moves, edits);
        world.moved(moved, (pool == "gold").then_some("gold")).await;
        world.edit_all(&format!("{value} again"), LIMIT).await;
        world.is_exclusive(from, 2).await;
        for name in moved {
            assert_eq!(world.labels(name).await, BTreeSet::from([pool.to_owned()]), "{name}");
        }
    }
    // The new owner goes on where the one before was.
    let api = applications(world.client.clone());
    for name in moved {
        api.delete(name, &DeleteParams::default()).await.unwrap();
        // It may be gone before, or written in between.
        let _ = world.up(&client, name, "gold").await;
    }
    for name in moved {
        until(&format!("nothing of {name} is left"), LIMIT, async || {
            world.value(name).await.is_none() && world.labels(name).await.is_empty()
        })
        .await;
    }
    world.cluster.stop();
}
