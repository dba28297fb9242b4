//! The unmodified client of KubeVela through our gateway and through KubeVela's: the same commands, the same output and exit codes.
//!
//! `VELA_CLIENT` names the client (`go build ./references/cmd/cli` in its module); without it there is nothing to ask. KubeVela's
//! gateway is built as in `gateway_original`. Behind each gateway is the same: a hub with our controller, and a member.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use regex::Regex;
use vela_tests::cluster::Cluster;
use vela_tests::deploy::{Deployed, Gateway, Options, OriginalGateway};
use vela_tests::fixtures::binaries;
use vela_tests::material;

/// For so long a command may take; some wait for an Application.
const LIMIT: Duration = Duration::from_secs(120);

/// The commands, in turn. `MEMBER` is the kubeconfig of the member, `DIR` a folder with the files of [`FILES`]. The last ones leave the
/// hub as it was.
const COMMANDS: &str = "
cluster list
cluster join DIR/none.kubeconfig --name east -y
cluster join MEMBER --name local -y
cluster join MEMBER --name east --labels region=eu,tier=a -y
cluster join MEMBER --name east -y
cluster list
cluster labels add east region=us
cluster labels del east tier
cluster labels add local a=b
cluster labels add nobody a=b
cluster alias east ost
cluster alias local here
cluster alias nobody x
cluster list
cluster rename nobody x
cluster rename east local
cluster rename east west
cluster list
cluster probe west
cluster probe local
cluster probe nobody
cluster export-config
cluster export-config -l region=none
kube apply --cluster local --cluster west -n default -f DIR/namespace.yaml
kube apply --cluster local --cluster west -n default -f DIR/map.yaml
kube apply --cluster nobody -n default -f DIR/map.yaml
up -f DIR/app.yaml -n shop --wait
status shop --namespace shop
status shop --namespace shop --tree
status shop --namespace shop --tree --detail
status shop --namespace shop --endpoint
status shop --namespace shop --pod
ls --namespace shop
auth grant-privileges --user alice --for-namespace team --for-cluster local,west --create-namespace
auth list-privileges --user alice --cluster local,west
auth list-privileges --user alice --cluster nobody
adopt configmap/west/default/plain --app-name adopted --apply --namespace shop
status adopted --namespace shop --tree
delete adopted --namespace shop -y --wait
kube delete --cluster local --cluster west -n default configmap plain
kube delete --cluster west -n default configmap plain
delete shop --namespace shop -y --wait
cluster detach nobody
cluster detach local
cluster detach west
cluster list
";

/// What differs, and the note of docs/compatibility/gateway.md that says why.
const KNOWN: [(&str, &str); 5] = [
    ("cluster probe nobody", "gateway-2"),
    ("kube apply --cluster nobody -n default -f DIR/map.yaml", "gateway-2"),
    ("status shop --namespace shop --tree", "gateway-15"),
    ("status shop --namespace shop --tree --detail", "gateway-15"),
    ("status adopted --namespace shop --tree", "gateway-15"),
];

const FILES: [(&str, &str); 4] = [
    ("namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"),
    ("none.kubeconfig", "apiVersion: v1\nkind: Config\n"),
    (
        "map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\ndata: {color: green}\n",
    ),
    (
        "app.yaml",
        r"
apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {name: shop, namespace: shop}
spec:
  components:
  - name: one
    type: k8s-objects
    properties:
      objects:
      - {apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {color: red}}
      - {apiVersion: v1, kind: Service, metadata: {name: one}, spec: {ports: [{port: 80}]}}
  policies:
  - {name: there, type: topology, properties: {clusters: [local, west]}}
",
    ),
];

#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
pub(super) fn client() -> Option<PathBuf> {
    let client = std::env::var_os("VELA_CLIENT").map(PathBuf::from);
    if client.is_none() {
        eprintln!("SKIPPED: VELA_CLIENT does not name KubeVela's client");
    }
    client
}

/// What a command printed, line by line, and its exit code.
type Outcome = (String, Vec<String>);

async fn run(client: &Path, hub: &Cluster, member: &Cluster) -> Vec<Outcome> {
    let dir = hub.dir().join("client");
    std::fs::create_dir_all(&dir).unwrap();
    for (name, text) in FILES {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let (masks, mut outcomes) = (masks(), Vec::new());
    for line in COMMANDS.lines().filter(|line| !line.is_empty()) {
        let words = line.split(' ').map(|word| {
            let word = word.replace("DIR", &dir.to_string_lossy());
            word.replace("MEMBER", &member.kubeconfig().to_string_lossy())
        });
        let words: Vec<String> = words.collect();
        let (client, home) = (client.to_owned(), dir.clone());
        let kubeconfig = hub.kubeconfig();
        let output = tokio::task::spawn_blocking(move || -> std::io::Result<Output> {
            let mut command = Command::new("timeout");
            command.arg(LIMIT.as_secs().to_string()).arg(client).args(words);
            command.env("KUBECONFIG", kubeconfig).env("HOME", home).stdin(Stdio::null());
            command.output()
        });
        let output = output.await.unwrap().unwrap();
        let mut lines = vec![format!("exit code {:?}", output.status.code())];
        for text in [&output.stdout, &output.stderr] {
            let mut text = String::from_utf8_lossy(text).into_owned();
            for (mask, with) in &masks {
                text = mask.replace_all(&text, *with).into_owned();
            }
            lines.extend(text.lines().map(|line| line.trim_end().to_owned()));
        }
        outcomes.push((line.to_owned(), lines));
    }
    outcomes
}

/// What differs from one run to the next, whoever answers.
fn masks() -> Vec<(Regex, &'static str)> {
    let mask = |pattern: &str, with| (Regex::new(pattern).unwrap(), with);
    vec![
        mask("\x1b\\[[0-9;?]*[a-zA-Z]", ""),
        mask(r"127\.0\.0\.1:\d+|localhost:\d+", "ADDRESS"),
        mask(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d{4}| UTC|Z)*", "TIME"),
        mask(r"\b\d+(\.\d+)?(ms|µs|s)\b", "DURATION"),
        mask(r"\bid: \w{10}\b", "id: ID"),
        mask(r"0x[0-9a-f]+", "POINTER"),
        mask(r"(certificate-authority-data|client-certificate-data|client-key-data): \S+", "$1"),
        mask(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UID"),
        mask(r"10\.\d+\.\d+\.\d+|198\.18\.\d+\.\d+", "IP"),
        mask(r"[I|E|W]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", ""),
    ]
}

/// The commands on a hub of their own.
async fn through(client: &Path, original: bool) -> Vec<Outcome> {
    let (hub, member) = (
        Cluster::start("client-hub").await.unwrap(),
        Cluster::start("client-member").await.unwrap(),
    );
    let options = Options {
        controller_flags: vec!["--allow-loopback-clusters".to_owned()],
        values: vec!["multicluster.enabled=true".to_owned()],
        ..Options::default()
    };
    let deployed = Deployed::start(&hub, &binaries(), &options).await.unwrap();
    let outcomes = if original {
        let gateway = OriginalGateway::start(&hub, &binaries(), &options).await.unwrap();
        let outcomes = run(client, &hub, &member).await;
        gateway.check().unwrap();
        outcomes
    } else {
        let gateway = Gateway::start(&hub, &binaries(), &options).await.unwrap();
        let outcomes = run(client, &hub, &member).await;
        gateway.program.check().unwrap();
        outcomes
    };
    deployed.check().unwrap();
    hub.stop();
    member.stop();
    outcomes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_says_the_same_through_both_gateways() {
    let Some(client) = client() else { return };
    let ours = through(&client, false).await;
    let theirs = through(&client, true).await;
    let (mut unknown, mut same) = (Vec::new(), Vec::new());
    for ((command, ours), (_, theirs)) in ours.iter().zip(&theirs) {
        let is_known = KNOWN.iter().any(|(known, _)| known == command);
        match (ours == theirs, is_known) {
            (true, true) => same.push(command),
            (false, false) => {
                let (ours, theirs) = (ours.join("\n  "), theirs.join("\n  "));
                unknown.push(format!("{command}\nours:\n  {ours}\nKubeVela's:\n  {theirs}\n"));
            }
            _ => {}
        }
    }
    let failed = |(command, lines): &Outcome| {
        (lines[0] != "exit code Some(0)").then(|| format!("{command}: {}", lines[1..].join(" / ")))
    };
    let failures: Vec<_> = ours.iter().filter_map(failed).collect();
    println!("{} commands; these fail:\n{}", ours.len(), failures.join("\n"));
    assert!(unknown.is_empty(), "{}:\n{}", unknown.len(), unknown.join("\n"));
    assert!(same.is_empty(), "no difference any more: {same:?}");
    let notes = material::workspace().join("docs/compatibility/gateway.md");
    let notes = std::fs::read_to_string(notes).unwrap();
    assert!(KNOWN.iter().all(|(_, note)| notes.contains(&format!("id=\"{note}\""))));
}
