//! `vela-controller ui` in a real browser: what it shows, with the keyboard alone, of hostile texts, as a viewer of few rights.
//!
//! Screenshots are kept in `target/ui`. With `VELA_LONG_TESTS` there are a thousand Applications, and the times of the page are
//! printed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vela_tests::browser::{Browser, ENTER};
use vela_tests::fixtures::{Space, binaries};
use vela_tests::process::{Invocation, Process};
use vela_tests::{audit, http};

/// What a tenant writes who wants to run something in the browser of whoever looks.
const HOSTILE: &str =
    "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>";

/// A server of the page.
struct Ui {
    process: Process,
    address: String,
    port: u16,
    key: String,
}

impl Ui {
    async fn start(space: &Space, name: &str, arguments: &[&str]) -> Self {
        let cluster = space.cluster();
        let invocation = Invocation::new(binaries().controller)
            .args(["ui", "--port=0", "--kubeconfig"])
            .args([cluster.kubeconfig().display().to_string()])
            .args(arguments.iter().copied());
        let log = cluster.dir().join(format!("{}-{name}.log", space.name()));
        let process = cluster.watchdog().spawn(name, &invocation, &log).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            process.check().unwrap();
            let text = std::fs::read_to_string(&log).unwrap();
            let line = |start: &str| {
                text.lines().find_map(|line| line.strip_prefix(start)).map(str::to_owned)
            };
            // The last line is there when both are.
            if let Some(address) = line("Applications: ").filter(|_| text.lines().count() > 1) {
                let port = address.trim_end_matches('/').rsplit(':').next().unwrap();
                let (port, key) = (port.parse().unwrap(), line("Key: ").unwrap_or_default());
                return Self { process, address, port, key };
            }
            assert!(Instant::now() < deadline, "{text}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[allow(clippy::print_stderr, reason = "nobody shall take it for a pass")]
async fn browser(space: &Space) -> Option<Browser> {
    let dir = tempfile::tempdir().unwrap().keep();
    let browser = Browser::start(space.cluster().watchdog(), &dir).await.unwrap();
    if browser.is_none() {
        eprintln!("SKIPPED: the page was not shown: chromium and chromedriver are not installed");
    }
    browser
}

async fn screenshot(browser: &Browser, name: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/ui");
    std::fs::create_dir_all(&folder).unwrap();
    browser.screenshot(&folder.join(format!("{name}.png"))).await.unwrap();
}

async fn enter(browser: &Browser, address: &str, key: &str) {
    browser.goto(address).await.unwrap();
    browser.until("document.activeElement.id === 'key'").await.unwrap();
    browser.keys(key).await.unwrap();
    browser.keys(ENTER).await.unwrap();
}

fn config_map(name: &str) -> Value {
    json!({"name": name, "type": "k8s-objects", "properties": {"objects": [{
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": "1"}}]}})
}

async fn create(space: &Space, app: Value) {
    let object = serde_json::from_value(app).unwrap();
    space.applications().create(&PostParams::default(), &object).await.unwrap();
}

/// An Application whose steps, messages and annotations are hostile.
async fn hostile(space: &Space) {
    create(
        space,
        json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "hostile", "annotations": {"note": HOSTILE}},
        "spec": {
            "components": [config_map("map"), {"name": "web", "type": "webservice", "dependsOn": ["map"], "properties": {"image": HOSTILE},
                "traits": [{"type": "scaler", "properties": {"replicas": 1}}]}],
            "workflow": {"mode": {"steps": "DAG"}, "steps": [
                {"name": "maps", "type": "apply-component", "properties": {"component": "map"}},
                {"name": "say", "type": "print-message-in-status", "dependsOn": ["maps"], "properties": {"message": HOSTILE}},
                {"name": "wait", "type": "suspend", "dependsOn": ["maps"], "properties": {"message": HOSTILE}},
                {"name": "web", "type": "apply-component", "dependsOn": ["say", "wait"], "properties": {"component": "web"}}]}}}),
    )
    .await;
}

#[tokio::test]
async fn a_browser_shows_applications_and_runs_nothing_of_theirs() {
    let space = Space::with_programs("ui").await;
    let Some(browser) = browser(&space).await else { return };
    let log = space.cluster().audit_log();
    space.create("shop", json!([config_map("settings")])).await.unwrap();
    hostile(&space).await;
    space.running("shop").await;
    let patch = json!({"spec": {"components": [{"name": "settings", "type": "k8s-objects", "properties": {"objects": [{
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"v": HOSTILE}}]}}]}});
    let api = space.applications();
    api.patch("shop", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    space.running("shop").await;
    let from = audit::position(&log).unwrap();
    let ui = Ui::start(&space, "ui", &["--namespace", space.name()]).await;

    // A wrong key, then the right one, by keyboard.
    enter(&browser, &ui.address, "wrong").await;
    browser
        .until("document.querySelector('[role=alert]')?.textContent === 'the key is wrong'")
        .await
        .unwrap();
    browser.keys(&ui.key).await.unwrap();
    browser.keys(ENTER).await.unwrap();
    let shop = format!("{}/shop", space.name());
    let row = |name: &str| {
        format!(
            "[...document.querySelectorAll('tbody th a')].find((a) => a.textContent === '{}/{name}')",
            space.name()
        )
    };
    browser.until(&row("shop")).await.unwrap();
    browser.until("document.querySelector('caption').textContent.includes(' of ')").await.unwrap();
    screenshot(&browser, "list").await;
    let address = browser.eval("return location.href").await.unwrap().to_string();
    assert!(!address.contains(&ui.key), "{address}");

    // The filter, and the link, without a pointer.
    browser.eval("document.getElementById('filter').focus()").await.unwrap();
    browser.keys(&shop).await.unwrap();
    browser.until("document.querySelectorAll('tbody tr').length === 1").await.unwrap();
    browser.keys("\t\t").await.unwrap();
    browser.until(&format!("document.activeElement.textContent === '{shop}'")).await.unwrap();
    browser.keys(ENTER).await.unwrap();
    browser.until("document.querySelector('h1').textContent.endsWith('/shop')").await.unwrap();
    browser.until("document.body.innerText.includes('ConfigMap settings')").await.unwrap();
    browser.until("document.querySelectorAll('#main .node').length >= 3").await.unwrap();
    assert_eq!(
        browser.eval("return document.title").await.unwrap(),
        json!(format!("{shop} - Applications"))
    );

    // Revisions and their difference: what was written stays text.
    browser.until("[...document.querySelectorAll('button')].some((b) => b.textContent === 'to the one before')").await.unwrap();
    browser.eval("[...document.querySelectorAll('button')].find((b) => b.textContent === 'to the one before').click()").await.unwrap();
    browser
        .until("document.querySelector('.fields')?.textContent.includes('onerror')")
        .await
        .unwrap();
    // A settled Application has nothing to do.
    browser.eval("document.getElementById('plan').click()").await.unwrap();
    browser.until("document.body.innerText.includes('Nothing to do')").await.unwrap();
    screenshot(&browser, "application").await;

    // Hostile texts.
    browser.eval(&format!("location.hash = '#/{}/hostile'", space.name())).await.unwrap();
    browser.until("document.querySelector('h1').textContent.endsWith('/hostile')").await.unwrap();
    browser.until("document.querySelectorAll('#main svg path').length >= 3").await.unwrap();
    browser.until("document.querySelector('#main').textContent.includes('onerror')").await.unwrap();
    browser
        .eval("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        .await
        .unwrap();
    screenshot(&browser, "hostile").await;
    let injected = browser
        .eval("return document.querySelectorAll('main img, main script').length")
        .await
        .unwrap();
    assert_eq!(injected, json!(0));
    assert_ne!(browser.eval("return document.title").await.unwrap(), json!("owned"));
    let after = browser
        .eval("return [...document.querySelectorAll('.node .unseen')].map((e) => e.textContent)")
        .await
        .unwrap();
    assert!(after.as_array().unwrap().contains(&json!(", after say, wait")), "{after}");
    // What is open stays open while the page follows the cluster.
    browser.eval("window.before = performance.now()").await.unwrap();
    browser.until("performance.now() > window.before + 5000").await.unwrap();
    assert_eq!(
        browser.eval("return document.querySelectorAll('details[open]').length > 3").await.unwrap(),
        json!(true)
    );

    for (what, script) in ACCESSIBLE {
        let wrong = browser.eval(script).await.unwrap();
        assert_eq!(wrong, json!([]), "{what}");
    }
    // A wrong key is an answer 401, which the browser reports; nothing else may be in its log.
    let complaints = browser.complaints().await.unwrap();
    let complaints: Vec<&String> = complaints.iter().filter(|one| !one.contains(" 401 ")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    browser.quit().await.unwrap();

    let entries = audit::read(&log, from).unwrap();
    let asked: Vec<_> =
        entries.iter().filter(|entry| entry.agent.starts_with("vela-command/")).collect();
    assert!(!asked.is_empty());
    for entry in asked {
        assert!(
            ["get", "list", "watch"].contains(&entry.verb.as_str()) || entry.dry_run,
            "{entry:?}"
        );
    }
    let log = std::fs::read_to_string(ui.process.log()).unwrap();
    assert_eq!(log.lines().count(), 2, "{log}");
}

/// What somebody needs who cannot see the page or has no pointer: scripts that return what is wrong.
const ACCESSIBLE: [(&str, &str); 5] = [
    (
        "every field has a label",
        "return [...document.querySelectorAll('input, select')].filter((e) => !e.labels.length).map((e) => e.id)",
    ),
    (
        "every table has a caption and header cells with a scope",
        "return [...document.querySelectorAll('table')].filter((t) => !t.caption || \
         [...t.querySelectorAll('th')].some((c) => !c.scope)).map((t) => t.textContent.slice(0, 40))",
    ),
    (
        "headings have no gaps",
        "const levels = [...document.querySelectorAll('h1, h2, h3, h4')].map((e) => Number(e.tagName[1])); \
         return levels.filter((level, n) => level > (n ? levels[n - 1] : 0) + 1)",
    ),
    (
        "buttons, links and entries have names",
        "return [...document.querySelectorAll('a, button, summary')].filter((e) => !e.textContent.trim()).map((e) => e.outerHTML)",
    ),
    (
        "landmarks are there",
        "return ['main', 'nav[aria-label]', 'header', '[role=status]'].filter((s) => !document.querySelector(s))",
    ),
];

/// A viewer who may read one namespace sees that one, under his own token; nothing is read as anybody else.
#[tokio::test]
async fn a_viewer_sees_what_his_token_may_see() {
    let space = Space::with_programs("ui-token").await;
    space.create("mine", json!([config_map("settings")])).await.unwrap();
    space.running("mine").await;
    let account: ServiceAccount =
        serde_json::from_value(json!({"metadata": {"name": "viewer"}})).unwrap();
    let accounts = space.api::<ServiceAccount>();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let role: Role = serde_json::from_value(json!({"metadata": {"name": "viewer"}, "rules": [
        {"apiGroups": ["core.oam.dev"], "resources": ["applications", "applicationrevisions"], "verbs": ["get", "list"]}]}))
    .unwrap();
    space.api::<Role>().create(&PostParams::default(), &role).await.unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({"metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"},
        "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": space.name()}]}))
    .unwrap();
    space.api::<RoleBinding>().create(&PostParams::default(), &binding).await.unwrap();
    let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let token =
        accounts.create_token_request("viewer", &PostParams::default(), &request).await.unwrap();
    let token = token.status.unwrap().token;
    let ui = Ui::start(&space, "ui-tokens", &["--tokens"]).await;
    assert_eq!(ui.key, "");

    // The kubeconfig of the server is an administrator's: it counts for nobody.
    let (code, body) = http::request(ui.port, "GET", "/api/applications", "").unwrap();
    assert_eq!(code, 401, "{body}");

    let Some(browser) = browser(&space).await else { return };
    enter(&browser, &ui.address, &token).await;
    // Not all namespaces: the page says so and asks for one.
    browser
        .until("document.getElementById('notice').textContent.includes('forbidden')")
        .await
        .unwrap();
    browser.eval("document.getElementById('namespace').focus()").await.unwrap();
    browser.keys(space.name()).await.unwrap();
    browser.keys(ENTER).await.unwrap();
    browser.until("document.querySelectorAll('tbody tr').length === 1").await.unwrap();
    browser.eval("document.querySelector('tbody a').click()").await.unwrap();
    // He may not read ResourceTrackers, nor ConfigMaps.
    browser
        .until("document.body.innerText.includes('ResourceTrackers cannot be read')")
        .await
        .unwrap();
    browser.until("document.body.innerText.includes('not yours to read')").await.unwrap();
    screenshot(&browser, "few-rights").await;
    let kept = browser
        .eval("return JSON.stringify([location.href, document.cookie, Object.keys(localStorage)])")
        .await
        .unwrap();
    assert!(!kept.to_string().contains(&token), "{kept}");
    browser.quit().await.unwrap();
    let log = std::fs::read_to_string(ui.process.log()).unwrap();
    assert!(!log.contains(&token), "{log}");
}

/// A thousand Applications: the first rows are there before the others are read.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "times are for people: no test fails for being slow")]
async fn a_thousand_applications_are_shown_in_pages() {
    if std::env::var_os("VELA_LONG_TESTS").is_none() {
        return;
    }
    let space = Space::with_programs("ui-many").await;
    let Some(browser) = browser(&space).await else { return };
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..1000 {
        if tasks.len() >= 16 {
            tasks.join_next().await.unwrap().unwrap();
        }
        let api = space.applications();
        tasks.spawn(async move {
            // Paused: no controller has anything to do with them.
            let app = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
                "metadata": {"name": format!("app-{n}"), "labels": {"controller.core.oam.dev/pause": "true"}},
                "spec": {"components": [config_map("settings")]}});
            api.create(&PostParams::default(), &serde_json::from_value(app).unwrap()).await.unwrap();
        });
    }
    while let Some(created) = tasks.join_next().await {
        created.unwrap();
    }
    let ui = Ui::start(&space, "ui-many", &[]).await;
    enter(&browser, &ui.address, &ui.key).await;
    browser
        .until(
            "document.querySelector('caption')?.textContent.match(/of 1\\d\\d\\d Applications,/)",
        )
        .await
        .unwrap();
    // Again, with the key already there, as a reader comes back.
    browser.refresh().await.unwrap();
    let rows = "const done = arguments[0]; const look = () => document.querySelector('tbody tr') ? done(performance.now()) : \
                requestAnimationFrame(look); look();";
    let first = browser.eval_later(rows).await.unwrap();
    browser
        .until(
            "document.querySelector('caption')?.textContent.match(/of 1\\d\\d\\d Applications,/)",
        )
        .await
        .unwrap();
    let paint = browser
        .eval("return performance.getEntriesByType('paint').map((p) => [p.name, p.startTime])")
        .await
        .unwrap();
    let all = browser.eval("return performance.now()").await.unwrap();
    println!("1000 Applications: first rows after {first} ms, all after at most {all} ms, {paint}");
    screenshot(&browser, "many").await;
    browser.quit().await.unwrap();
}
