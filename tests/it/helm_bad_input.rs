//! Charts and repositories that lie, break or attack: a clear message, and nothing of the release that is there is touched.

use serde_json::{Value, json};
use vela_tests::chart_server::{ChartServer, Reply, Settings, USER, pack};
use vela_tests::fixtures::{Space, until};

use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;

use super::helm::{LIMIT, complaint, component, data, edit, records, revisions, server};

const CHART: &[u8] = b"apiVersion: v2\nname: web\nversion: 2.0.0\n";

fn chart(files: &[(&str, u8, &[u8])]) -> Reply {
    let own = ("web/Chart.yaml".to_owned(), b'0', CHART.to_vec());
    let files =
        files.iter().map(|(path, kind, content)| ((*path).to_owned(), *kind, content.to_vec()));
    Reply::Body(pack(std::iter::once(own).chain(files)).unwrap())
}

/// Path, answer, and what the status has to say.
fn table() -> Vec<(&'static str, Reply, &'static str)> {
    let zeros = vec![0_u8; 6 << 20];
    let template = |text: &'static str| chart(&[("web/templates/a.yaml", b'0', text.as_bytes())]);
    vec![
        ("/text.tgz", Reply::Body(b"not an archive".to_vec()), "archive"),
        ("/empty.tgz", Reply::Body(pack(std::iter::empty()).unwrap()), "no files"),
        ("/bomb.tgz", chart(&[("web/zeros", b'0', &zeros)]), "5242880"),
        ("/up.tgz", chart(&[("web/../../etc/passwd", b'0', b"x")]), "parent directory"),
        ("/absolute.tgz", chart(&[("web//etc/passwd", b'0', b"x")]), "absolute"),
        ("/link.tgz", chart(&[("web/templates/a.yaml", b'2', b"/etc/passwd")]), "link"),
        (
            "/twice.tgz",
            chart(&[("web/templates/a", b'0', b"x"), ("web/templates/a", b'0', b"y")]),
            "templates/a",
        ),
        ("/parse.tgz", template("a: {{ if }}\n"), "a.yaml:1"),
        ("/nil.tgz", template("\na: {{ .Values.x.y }}\n"), "a.yaml:2:"),
        ("/yaml.tgz", template("a: [\n"), "a.yaml"),
        ("/fail.tgz", template("{{ fail \"no such luck\" }}"), "no such luck"),
        (
            "/recursion.tgz",
            template("{{ define \"x\" }}{{ include \"x\" . }}{{ end }}{{ include \"x\" . }}"),
            "nested",
        ),
        ("/kind.tgz", template("apiVersion: v1\nmetadata: {name: x}\n"), "no kind"),
        (
            "/schema.tgz",
            chart(&[(
                "web/values.schema.json",
                b'0',
                br#"{"$ref": "http://169.254.169.254/latest/schema.json"}"#,
            )]),
            "schemas are not fetched",
        ),
        ("/endless.tgz", Reply::Endless, "larger than 20971520 bytes"),
        (
            "/internal.tgz",
            Reply::Redirect("http://169.254.169.254/latest/x.tgz".into()),
            "169.254.169.254",
        ),
        ("/file.tgz", Reply::Redirect("file:///etc/passwd".into()), "file"),
        ("/circle.tgz", Reply::Redirect("/circle.tgz".into()), "more than 5 redirects"),
    ]
}

#[tokio::test]
async fn whatever_a_server_sends_the_release_stays_as_it_is() {
    let space = Space::with_programs("helm-bad").await;
    let server = server(Settings::default()).await;
    space.create("a", component(&server, json!({}))).await.unwrap();
    space.running("a").await;
    let table = table();
    for (path, reply, _) in &table {
        server.put(path, reply.clone());
    }
    let with = |path: &str| {
        let mut all = component(&server, json!({}));
        all[0]["properties"]["chart"] =
            json!({"source": format!("http://{}{path}", server.address())});
        all
    };
    for (path, _, text) in &table {
        edit(&space, with(path)).await;
        complaint(&space, text).await;
        let status = space.applications().get("a").await.unwrap().data["status"].to_string();
        assert!(!status.contains("root:"), "{status}");
    }
    assert_eq!(records(&space, "web").await, revisions(&[(1, "deployed")]));
    assert_eq!(data(&space, "web-map", "greeting").await.as_deref(), Some("hello"));
    // And the next good one is deployed.
    edit(&space, component(&server, json!({"values": {"greeting": "again"}}))).await;
    until("the second revision", LIMIT, async || {
        records(&space, "web").await == revisions(&[(1, "superseded"), (2, "deployed")])
    })
    .await;
}

/// An index that names an archive of another server, and one that announces another digest.
fn index(url: &str, digest: &str) -> Reply {
    let entry = json!([{"name": "web", "version": "1.0.0", "urls": [url], "digest": digest}]);
    let index = json!({"apiVersion": "v1", "entries": {"web": entry}});
    Reply::Body(index.to_string().into_bytes())
}

#[tokio::test]
async fn credentials_stay_with_their_origin_and_digests_are_believed() {
    let space = Space::with_programs("helm-lies").await;
    let (first, second) = (server(Settings::default()).await, server(Settings::default()).await);
    let secret = json!({
        "metadata": {"name": "repository"}, "type": "kubernetes.io/basic-auth",
        "stringData": {"username": USER.0, "password": USER.1},
    });
    let secret: Secret = serde_json::from_value(secret).unwrap();
    space.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
    let archive = format!("http://{}/charts/web-1.0.0.tgz", second.address());
    first.put("/other/index.yaml", index(&archive, ""));
    first.put("/lies/index.yaml", index("/charts/web-1.0.0.tgz", &"0".repeat(64)));
    let of = |server: &ChartServer, folder: &str| -> Value {
        let chart = json!({
            "repoURL": format!("http://{}/{folder}", server.address()),
            "auth": {"secretRef": {"name": "repository"}},
        });
        component(server, json!({"chart": chart}))
    };
    space.create("a", of(&first, "lies")).await.unwrap();
    complaint(&space, "the archive has digest").await;
    assert!(records(&space, "web").await.is_empty());
    edit(&space, of(&first, "other")).await;
    space.running("a").await;
    assert_eq!(data(&space, "web-map", "greeting").await.as_deref(), Some("hello"));
    assert!(first.requests().contains(&"/other/index.yaml as somebody".to_owned()));
    assert_eq!(second.requests(), ["/charts/web-1.0.0.tgz"], "without credentials");
}
