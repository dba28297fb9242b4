//! The webhook as a process: what clients of every kind meet, and what happens to them when
//! certificates and replicas come and go.

mod certificates;
mod clients;
mod definitions;
mod fuzz;
mod references;
mod replicas;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use vela_tests::cluster::Cluster;
use vela_tests::deploy::Program;
use vela_tests::fixtures::{deployed, shared};
use vela_tests::load::{self, Target};
use vela_tests::pki::Leaf;

/// A webhook of its own in addition to the shared one, with its own ports and certificate folder.
struct Own {
    program: Program,
    mount: PathBuf,
    cluster: Arc<Cluster>,
    target: Target,
}

impl Own {
    async fn start(name: &'static str, flags: &[&str]) -> Self {
        let (cluster, deployed) = (shared().await, deployed().await);
        let mount = cluster.dir().join(format!("{name}-mount"));
        fs::create_dir_all(&mount).unwrap();
        swap(&mount, "..0", &leaf(&cluster, name));
        let program = deployed
            .webhook
            .replica(&cluster, name)
            .unwrap()
            .with_flags([format!("--webhook-cert-dir={}", mount.display())])
            .with_flags(flags.iter().map(|flag| (*flag).to_owned()));
        let target = Target::new(&program.url(), cluster.authority().certificate()).unwrap();
        let own = Self { program, mount, cluster, target };
        own.program.start(&own.cluster).unwrap();
        own.program.ready().await.unwrap();
        own
    }

    /// Neither dead nor did anything panic.
    async fn assert_well(&self) {
        self.program.check().unwrap();
        let panics = self.program.metric("controller_runtime_webhook_panics_total").await.unwrap();
        assert!(panics < 0.5, "{panics} panics");
        let text = fs::read_to_string(self.program.log()).unwrap();
        assert!(!text.contains("panicked"), "{text}");
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.program.kill();
    }
}

fn leaf(cluster: &Cluster, name: &str) -> Leaf {
    cluster.authority().server(name, &["localhost"]).unwrap()
}

/// New content of a mounted Secret, as the kubelet does it: a new folder, then the link `..data`
/// renamed onto it.
fn swap(mount: &Path, generation: &str, leaf: &Leaf) {
    let data = mount.join(generation);
    fs::create_dir_all(&data).unwrap();
    leaf.write(&data, "tls").unwrap();
    let link = mount.join("..data_tmp");
    let _ = fs::remove_file(&link);
    symlink(generation, &link).unwrap();
    fs::rename(link, mount.join("..data")).unwrap();
    for file in ["tls.crt", "tls.key"] {
        let link = mount.join(file);
        if !link.exists() {
            symlink(format!("..data/{file}"), link).unwrap();
        }
    }
}

/// A review that is admitted.
fn good() -> Vec<u8> {
    load::review("default", &load::components(1)).to_string().into_bytes()
}

/// One component whose type does not exist.
fn bad() -> Value {
    let components = json!([{ "name": "a", "type": "webservise", "properties": {} }]);
    load::review("default", &components)
}

/// How long a test under load takes: short, unless somebody wants it long.
fn seconds(otherwise: u64) -> Duration {
    let wanted = std::env::var("VELA_LOAD_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(wanted.unwrap_or(otherwise))
}
