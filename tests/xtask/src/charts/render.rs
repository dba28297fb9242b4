//! Lint and rendering with the pinned helm; needs no cluster.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use vela_tests::deploy::{AUTHENTICATION, RELEASE};
use vela_tests::material;
use vela_tests::progress::Step;
use vela_tests::release::{Helm, chart};

use super::predecessor;

/// Settings that change what is rendered; each must give valid YAML.
const VARIANTS: [&[&str]; 21] = [
    &[],
    &["authentication.enabled=true"],
    &["authentication.enabled=false"],
    &["admissionWebhooks.enabled=false"],
    &["admissionWebhooks.certManager.enabled=true"],
    &["admissionWebhooks.failurePolicy=Ignore"],
    &["multicluster.enabled=false", "nameOverride=other"],
    &["fullnameOverride=other", "serviceAccount.name=mine", "serviceAccount.create=false"],
    &[
        "webhook.autoscaling.enabled=true",
        "networkPolicy.enabled=true",
        "priorityClass.create=false",
        "apf.create=false",
    ],
    &["webhook.refObjects.rules=null", "multicluster.enabled=true"],
    &[
        "multicluster.enabled=true",
        "multicluster.clusterGateway.replicaCount=2",
        "multicluster.clusterGateway.secureTLS.certManager.enabled=true",
        "networkPolicy.enabled=true",
        "controller.serviceAccountCredentials=true",
    ],
    &["multicluster.enabled=true", "multicluster.clusterGateway.implementation=original"],
    &["multicluster.enabled=true", "multicluster.clusterGateway.enabled=false"],
    &[
        "multicluster.enabled=true",
        "multicluster.guard.groups={platform}",
        "multicluster.exchangeRules=vela-system/rules",
        "multicluster.execCredentialDir=/commands",
        "multicluster.hubAdmins=impersonate",
        "multicluster.metrics.enabled=true",
    ],
    &["sharding.enabled=true", "sharding.schedulableShards=shard-0"],
    &["controller.podDisruptionBudget.enabled=true", "imageRegistry=registry.example/"],
    &["deletionProtection.enabled=false"],
    &["controller.serviceAccountCredentials=true"],
    &["controller.serviceAccountCredentials=true", "serviceAccount.create=false"],
    &[
        "controller.serviceAccountCredentials=true",
        "authentication.enabled=false",
        "admissionWebhooks.certManager.enabled=true",
    ],
    &[
        "core.metrics.enabled=true",
        "core.metrics.serviceMonitor.enabled=true",
        "core.metrics.dashboard.enabled=true",
        "core.metrics.rules.enabled=true",
    ],
];

/// Values, and what becomes of them: the name of an object, a place in it, the JSON there.
type Rendered = (&'static [&'static str], &'static str, &'static str, &'static str);

const WEBHOOK: &str = "Deployment kubevela-vela-core-webhook";
const CONTROLLER: &str = "Deployment kubevela-vela-core";
const POLICY: &str = "NetworkPolicy kubevela-vela-core";
const MONITOR: &str = "ServiceMonitor kubevela-vela-core";
const VALIDATING: &str = "ValidatingWebhookConfiguration kubevela-vela-core-admission";

const GATEWAY: &str = "Deployment kubevela-cluster-gateway";
const CLUSTERS: &str = "multicluster.enabled=true";

const RENDERED: &[Rendered] = &[
    (
        &[CLUSTERS],
        GATEWAY,
        "/spec/template/spec/containers/0/image",
        r#""vela-gateway:v1.11.0-rs.1""#,
    ),
    // Names and labels of the chart this one replaces; a selector cannot change.
    (
        &[CLUSTERS],
        GATEWAY,
        "/spec/selector/matchLabels",
        r#"{"app.kubernetes.io/instance":"kubevela-cluster-gateway","app.kubernetes.io/name":"vela-core-cluster-gateway"}"#,
    ),
    (
        &[CLUSTERS],
        "APIService v1alpha1.cluster.core.oam.dev",
        "/spec",
        r#"{"group":"cluster.core.oam.dev","groupPriorityMinimum":2000,"service":{"name":"kubevela-cluster-gateway-service","namespace":"vela-system","port":9443},"version":"v1alpha1","versionPriority":10}"#,
    ),
    (
        &[CLUSTERS, "multicluster.clusterGateway.port=8443"],
        "Service kubevela-cluster-gateway-service",
        "/spec/ports/0/port",
        "8443",
    ),
    (
        &[CLUSTERS],
        "ClusterRole kubevela-vela-core:cluster-gateway",
        "/rules",
        r#"[{"apiGroups":["authorization.k8s.io"],"resources":["subjectaccessreviews"],"verbs":["create"]},{"apiGroups":["cluster.open-cluster-management.io"],"resources":["managedclusters"],"verbs":["get","list","watch"]}]"#,
    ),
    (
        &[CLUSTERS, "multicluster.namespace=clusters"],
        "Role kubevela-cluster-gateway",
        "/metadata/namespace",
        r#""clusters""#,
    ),
    (
        &[CLUSTERS],
        "Role kubevela-cluster-gateway",
        "/rules",
        r#"[{"apiGroups":[""],"resources":["secrets"],"verbs":["get","list","watch"]}]"#,
    ),
    (
        &[CLUSTERS],
        "ClusterRoleBinding kubevela-vela-core:cluster-gateway:proxy",
        "/subjects/0/name",
        r#""kubevela:client""#,
    ),
    // The image that an older chart's values name is that of the original, and ours is never it.
    (
        &[
            CLUSTERS,
            "multicluster.clusterGateway.image.repository=mirror/cluster-gateway",
            "multicluster.clusterGateway.implementation=original",
        ],
        GATEWAY,
        "/spec/template/spec/containers/0/image",
        r#""mirror/cluster-gateway:v1.9.0-alpha.2""#,
    ),
    (
        &[CLUSTERS, "multicluster.clusterGateway.image.repository=mirror/cluster-gateway"],
        GATEWAY,
        "/spec/template/spec/containers/0/image",
        r#""vela-gateway:v1.11.0-rs.1""#,
    ),
    (
        &[CLUSTERS, "multicluster.clusterGateway.implementation=original"],
        GATEWAY,
        "/spec/template/spec/containers/0/readinessProbe/httpGet",
        r#"{"path":"/readyz","port":"https","scheme":"HTTPS"}"#,
    ),
    (
        &[CLUSTERS, "multicluster.clusterGateway.secureTLS.certManager.enabled=true"],
        "APIService v1alpha1.cluster.core.oam.dev",
        "/metadata/annotations",
        r#"{"cert-manager.io/inject-ca-from":"vela-system/kubevela-vela-core-cluster-gateway-tls"}"#,
    ),
    (
        &[CLUSTERS, "multicluster.clusterGateway.replicaCount=2"],
        "PodDisruptionBudget kubevela-cluster-gateway",
        "/spec/maxUnavailable",
        "1",
    ),
    (
        &[CLUSTERS, "networkPolicy.enabled=true", "networkPolicy.apiServers[0]=192.0.2.1/32"],
        "NetworkPolicy kubevela-cluster-gateway",
        "/spec/ingress/0/from",
        r#"[{"ipBlock":{"cidr":"192.0.2.1/32"}}]"#,
    ),
    (&[], WEBHOOK, "/spec/template/spec/containers/0/image", r#""vela-webhook:v1.11.0-rs.1""#),
    (
        &["imageRegistry=r.example/", "webhook.image.digest=sha256:%"],
        WEBHOOK,
        "/spec/template/spec/containers/0/image",
        r#""r.example/vela-webhook@sha256:%""#,
    ),
    (
        &["controller.image.digest=sha256:%", "controller.image.tag=x"],
        CONTROLLER,
        "/spec/template/spec/containers/0/image",
        r#""vela-controller@sha256:%""#,
    ),
    (
        &["test.k8s.digest=sha256:%"],
        "Pod kubevela-application-test",
        "/spec/containers/0/image",
        r#""oamdev/alpine-k8s@sha256:%""#,
    ),
    (
        &["test.app.digest=sha256:%"],
        "Application helm-test-vela-app",
        "/spec/components/0/properties/image",
        r#""oamdev/hello-world@sha256:%""#,
    ),
    (
        &["imagePullSecrets[0].name=all"],
        "Pod kubevela-application-test",
        "/spec/imagePullSecrets",
        r#"[{"name":"all"}]"#,
    ),
    (
        &["imagePullSecrets[0].name=all", "webhook.image.pullSecrets[0].name=own"],
        WEBHOOK,
        "/spec/template/spec/imagePullSecrets",
        r#"[{"name":"own"}]"#,
    ),
    (
        &["imagePullSecrets[0].name=all", "webhook.image.pullSecrets[0].name=own"],
        CONTROLLER,
        "/spec/template/spec/imagePullSecrets",
        r#"[{"name":"all"}]"#,
    ),
    (&["webhook.podLabels.a=b"], WEBHOOK, "/spec/template/metadata/labels/a", r#""b""#),
    (&["webhook.podLabels.a=b"], WEBHOOK, "/spec/selector/matchLabels/a", "null"),
    (&["controller.podLabels.a=b"], CONTROLLER, "/spec/template/metadata/labels/a", r#""b""#),
    (
        &["core.metrics.scrapeAnnotations=false", "controller.podAnnotations.a=b"],
        CONTROLLER,
        "/spec/template/metadata/annotations",
        r#"{"a":"b"}"#,
    ),
    (
        &["webhook.serviceAccount.name=own", "webhook.serviceAccount.annotations.a=b"],
        "ServiceAccount own",
        "/metadata/annotations",
        r#"{"a":"b"}"#,
    ),
    (
        &["webhook.serviceAccount.name=own", "webhook.serviceAccount.create=false"],
        WEBHOOK,
        "/spec/template/spec/serviceAccountName",
        r#""own""#,
    ),
    (
        &["webhook.serviceAccount.name=own"],
        "ClusterRoleBinding kubevela-vela-core-webhook",
        "/subjects/0/name",
        r#""own""#,
    ),
    (
        &["webhook.hostNetwork=true", "webhook.healthPort=19440", "webhook.metricsPort=18080"],
        WEBHOOK,
        "/spec/template/spec/containers/0/ports",
        r#"[{"containerPort":9443,"name":"webhook"},{"containerPort":19440,"name":"healthz"},{"containerPort":18080,"name":"metrics"}]"#,
    ),
    (
        &["webhook.hostNetwork=true"],
        WEBHOOK,
        "/spec/template/spec/dnsPolicy",
        r#""ClusterFirstWithHostNet""#,
    ),
    (
        &["webhook.hostNetwork=true"],
        WEBHOOK,
        "/spec/strategy/rollingUpdate",
        r#"{"maxSurge":0,"maxUnavailable":1}"#,
    ),
    (&["webhook.strategy.type=Recreate"], WEBHOOK, "/spec/strategy", r#"{"type":"Recreate"}"#),
    (
        &["controller.strategy.type=Recreate"],
        CONTROLLER,
        "/spec/strategy",
        r#"{"type":"Recreate"}"#,
    ),
    (
        &["controller.dnsPolicy=Default"],
        CONTROLLER,
        "/spec/template/spec/dnsPolicy",
        r#""Default""#,
    ),
    (&["controller.revisionHistoryLimit=3"], CONTROLLER, "/spec/revisionHistoryLimit", "3"),
    (
        &["webhook.topologySpreadConstraints[0].maxSkew=2"],
        WEBHOOK,
        "/spec/template/spec/topologySpreadConstraints",
        r#"[{"maxSkew":2}]"#,
    ),
    (
        &["controller.topologySpreadConstraints[0].maxSkew=2"],
        CONTROLLER,
        "/spec/template/spec/topologySpreadConstraints",
        r#"[{"maxSkew":2}]"#,
    ),
    (
        &["controller.extraVolumes[0].name=ca", "controller.extraVolumeMounts[0].name=ca"],
        CONTROLLER,
        "/spec/template/spec/volumes",
        r#"[{"name":"ca"}]"#,
    ),
    (
        &["controller.extraEnv[0].name=SSL_CERT_FILE"],
        CONTROLLER,
        "/spec/template/spec/containers/0/env/3",
        r#"{"name":"SSL_CERT_FILE"}"#,
    ),
    (
        &["webhook.clientCA.configMapName=front"],
        WEBHOOK,
        "/spec/template/spec/volumes/1",
        r#"{"configMap":{"name":"front"},"name":"client-ca"}"#,
    ),
    (
        &["admissionWebhooks.namespaceSelector.matchLabels.a=b"],
        VALIDATING,
        "/webhooks/0/namespaceSelector",
        r#"{"matchLabels":{"a":"b"}}"#,
    ),
    (
        &["admissionWebhooks.objectSelector.matchLabels.a=b"],
        VALIDATING,
        "/webhooks/0/objectSelector",
        r#"{"matchLabels":{"a":"b"}}"#,
    ),
    (
        &["admissionWebhooks.certManager.enabled=true"],
        VALIDATING,
        "/metadata/annotations",
        r#"{"cert-manager.io/inject-ca-from":"vela-system/kubevela-vela-core-admission"}"#,
    ),
    (
        &["admissionWebhooks.certManager.enabled=true"],
        "Certificate kubevela-vela-core-root-cert",
        "/spec/privateKey/rotationPolicy",
        r#""Never""#,
    ),
    (
        &["networkPolicy.enabled=true", "networkPolicy.apiServers[0]=192.0.2.1/32"],
        "NetworkPolicy kubevela-vela-core-webhook",
        "/spec/ingress/0/from",
        r#"[{"ipBlock":{"cidr":"192.0.2.1/32"}}]"#,
    ),
    (
        &["networkPolicy.controller.enabled=true"],
        POLICY,
        "/spec/egress/0/to/1/ipBlock/except/0",
        r#""169.254.0.0/16""#,
    ),
    (
        &[
            "networkPolicy.controller.enabled=true",
            "networkPolicy.controller.egress[0].ports[0].port=8443",
        ],
        POLICY,
        "/spec/egress/1",
        r#"{"ports":[{"port":8443}]}"#,
    ),
    (
        &[
            "core.metrics.enabled=true",
            "core.metrics.serviceMonitor.enabled=true",
            "core.metrics.serviceMonitor.interval=15s",
            "core.metrics.serviceMonitor.honorLabels=true",
        ],
        MONITOR,
        "/spec/endpoints/0",
        r#"{"honorLabels":true,"interval":"15s","port":"metrics"}"#,
    ),
    (
        &[
            "core.metrics.enabled=true",
            "core.metrics.serviceMonitor.enabled=true",
            "core.metrics.tls.secretName=metrics",
        ],
        MONITOR,
        "/spec/endpoints/0",
        r#"{"port":"metrics","scheme":"https","tlsConfig":{"insecureSkipVerify":true}}"#,
    ),
    (
        &[
            "core.metrics.enabled=true",
            "core.metrics.serviceMonitor.enabled=true",
            "core.metrics.serviceMonitor.tlsConfig.serverName=vela-metrics",
            "core.metrics.tls.secretName=metrics",
        ],
        MONITOR,
        "/spec/endpoints/0/tlsConfig",
        r#"{"serverName":"vela-metrics"}"#,
    ),
    (
        &["core.metrics.tls.secretName=metrics"],
        CONTROLLER,
        "/spec/template/spec/volumes/0/secret/secretName",
        r#""metrics""#,
    ),
    (
        &["core.metrics.tls.secretName=metrics"],
        CONTROLLER,
        "/spec/template/spec/containers/0/volumeMounts",
        r#"[{"mountPath":"/metrics-certificate","name":"metrics-certificate","readOnly":true}]"#,
    ),
    (
        &["core.metrics.tls.secretName=metrics"],
        WEBHOOK,
        "/spec/template/metadata/annotations/prometheus.io~1scheme",
        r#""https""#,
    ),
    (
        &["core.metrics.tls.secretName=metrics"],
        WEBHOOK,
        "/spec/template/spec/volumes/2/secret/secretName",
        r#""metrics""#,
    ),
    (
        &[
            "core.metrics.enabled=true",
            "core.metrics.serviceMonitor.enabled=true",
            "core.metrics.serviceMonitor.namespace=monitoring",
        ],
        MONITOR,
        "/metadata/namespace",
        r#""monitoring""#,
    ),
    (
        &[
            "core.metrics.enabled=true",
            "core.metrics.rules.enabled=true",
            "core.metrics.rules.runbookUrl=https://docs.example/#",
        ],
        "PrometheusRule kubevela-vela-core",
        "/spec/groups/0/rules/0/annotations/runbook_url",
        r#""https://docs.example/#velaadmissiondown""#,
    ),
];

/// A digest, for `%`.
const DIGEST: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// What the schema must not let pass.
const REFUSED: [&str; 18] = [
    "multicluster.clusterGateway.implementation=other",
    "authentication.enable=true",
    "prune.confirmKinds={a b}",
    "authentication.defaultUser=",
    "admissionWebhooks.timeout=3",
    "featureGates.enableEverything=true",
    "replicas=2",
    "webhook.image.digest=latest",
    "networkPolicy.apiServers[0]=everywhere",
    "webhook.replicaCount=0",
    "webhook.replicas=3",
    "webhook.logFormat=xml",
    "controller.serviceAccountCredentials=perhaps",
    "networkPolicy.enabled=perhaps",
    "priorityClass.value=high",
    "apf.create=perhaps",
    "webhook.refObjects.rules[0].verbs[0]=update",
    "admissionWebhooks.failurePolicy=Sometimes",
];

/// Settings that say who the controllers are, who writes Applications then, and the ServiceAccounts other than those of the two
/// programs.
const IDENTITIES: [(&[&str], &str, &[&str]); 5] = [
    (&[], "kubevela-vela-core", &[]),
    (&["controller.serviceAccountCredentials=false"], "kubevela-vela-core", &[]),
    (&["serviceAccount.name=mine"], "mine", &[]),
    (
        &["controller.serviceAccountCredentials=true"],
        "vela-application-controller",
        &[
            "vela-application-controller",
            "vela-certificates-controller",
            "vela-componentdefinition-controller",
            "vela-policydefinition-controller",
            "vela-traitdefinition-controller",
            "vela-workflowstepdefinition-controller",
        ],
    ),
    (
        &[
            "controller.serviceAccountCredentials=true",
            "serviceAccount.name=mine",
            "admissionWebhooks.certManager.enabled=true",
        ],
        "vela-application-controller",
        &[
            "vela-application-controller",
            "vela-componentdefinition-controller",
            "vela-policydefinition-controller",
            "vela-traitdefinition-controller",
            "vela-workflowstepdefinition-controller",
        ],
    ),
];

/// Settings, and whether any edit may need a patch: with shards.
const PATCHED: [(&[&str], bool); 8] = [
    (&[], false),
    (&["authentication.withUser=false"], false),
    (&["webhook.extraArgs[0]=--authentication-group-pattern=*"], true),
    (&["authentication.enabled=false", "authentication.withUser=false"], false),
    (&["authentication.enabled=false", "webhook=null"], false),
    (&["authentication=null", "webhook.extraArgs[0]=--log-debug"], false),
    (&["authentication.enabled=false", "webhook.extraArgs[0]=--enable-sharding"], true),
    (&["sharding.enabled=true"], true),
];

/// Free texts, and the flags they become, by whatever characters.
const TEXTS: [(&str, &str); 3] = [
    ("defaultUser", "--authentication-default-user"),
    ("groupPattern", "--authentication-group-pattern"),
    ("adminGroup", "--authentication-admin-group"),
];

/// The blocks that no older chart has: `--reuse-values` does not bring their defaults along.
const NEW: [&str; 7] = [
    "webhook",
    "controller",
    "gateway",
    "networkPolicy",
    "priorityClass",
    "deletionProtection",
    "prune",
];

/// Lints the chart and renders it in all variants.
pub(crate) fn check() -> Result<()> {
    let home = material::target().join("helm");
    let helm = Helm::new(&home)?;
    let step = Step::start("helm lint");
    helm.run(&["lint", "--quiet", &chart().to_string_lossy()])?;
    step.done();
    for values in VARIANTS {
        let step = Step::start(format!("helm template {}", values.join(" ")));
        let objects = objects(&helm, values)?;
        let named = |object: &&Value| object["metadata"]["name"].is_string();
        if let Some(odd) = objects.iter().find(|object| !named(object)) {
            bail!("the chart renders an object without a name: {odd}");
        }
        ensure!(objects.len() > 80, "the chart renders hardly anything with {values:?}");
        let names: BTreeSet<String> = objects.iter().map(identity).collect();
        ensure!(names.len() == objects.len(), "two objects of one name with {values:?}");
        step.done();
    }
    let step = Step::start("who the controllers are");
    for (values, writer, accounts) in IDENTITIES {
        identities(&objects(&helm, values)?, writer, accounts)
            .with_context(|| format!("with {values:?}"))?;
    }
    step.done();

    let step = Step::start("which edits are patched");
    for (values, any) in PATCHED {
        let objects = objects(&helm, values)?;
        let left_out =
            conditions(&objects).any(|condition| condition["name"] == "may-need-a-patch");
        ensure!(left_out != any, "with {values:?} some edits are not patched: {left_out}");
    }
    step.done();

    let step = Step::start("texts become flags as they are");
    let values = TEXTS.map(|(value, _)| format!("authentication.{value}={value}\"b: c"));
    let given = arguments(&objects(&helm, &values.each_ref().map(String::as_str))?);
    for (value, flag) in TEXTS {
        let wanted = format!("{flag}={value}\"b: c");
        ensure!(given.contains(&wanted), "{value} does not become {wanted}");
    }
    step.done();

    let step = Step::start("what becomes of values");
    for (values, name, pointer, wanted) in RENDERED {
        let values: Vec<String> = values.iter().map(|one| one.replace('%', DIGEST)).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let objects = objects(&helm, &values)?;
        let named = |object: &&Value| {
            let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
            format!("{} {}", kind.as_str().unwrap_or_default(), name.as_str().unwrap_or_default())
        };
        let object = objects.iter().find(|object| named(object) == *name);
        let object = object.with_context(|| format!("there is no {name} with {values:?}"))?;
        let wanted: Value = serde_json::from_str(&wanted.replace('%', DIGEST))?;
        let found = object.pointer(pointer).cloned().unwrap_or_default();
        ensure!(found == wanted, "{name} has {found} at {pointer} with {values:?}");
    }
    step.done();

    let step = Step::start("what the schema must refuse");
    for value in REFUSED {
        ensure!(template(&helm, &[value]).is_err(), "{value} is not refused");
    }
    step.done();

    let step = Step::start("defaults for --reuse-values are those of values.yaml");
    let without: Vec<String> = NEW.iter().map(|block| format!("{block}=null")).collect();
    let without: Vec<&str> = without.iter().map(String::as_str).collect();
    ensure!(
        template(&helm, &[])? == template(&helm, &without)?,
        "values.yaml and the defaults in templates/_helpers.tpl differ"
    );
    let old_clusters: Vec<&str> =
        without.iter().copied().chain([CLUSTERS, "multicluster.clusterGateway=null"]).collect();
    ensure!(
        template(&helm, &[CLUSTERS])? == template(&helm, &old_clusters)?,
        "values.yaml and the defaults of the gateway in templates/_helpers.tpl differ"
    );
    let old = home.join("predecessor-values.yaml");
    fs::create_dir_all(&home)?;
    fs::write(&old, predecessor::VALUES)?;
    let chart = chart();
    let chart = chart.to_string_lossy();
    let old = old.to_string_lossy();
    let set = ["--set", "authentication.enabled=false"];
    helm.run(&["template", RELEASE, &chart, "--values", &old, set[0], set[1]])?;
    let unset = helm.run(&["template", RELEASE, &chart]);
    let refused = unset.is_err_and(|error| error.to_string().contains(AUTHENTICATION));
    ensure!(refused, "without a cluster {AUTHENTICATION} is guessed");
    step.done();
    Ok(())
}

fn objects(helm: &Helm, values: &[&str]) -> Result<Vec<Value>> {
    let yaml = template(helm, values)?;
    let objects: Vec<Value> =
        serde_saphyr::from_multiple(&yaml).context("helm's output is not YAML")?;
    Ok(objects.into_iter().filter(Value::is_object).collect())
}

/// The conditions of all webhooks.
fn conditions(objects: &[Value]) -> impl Iterator<Item = &Value> {
    let kinds = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
    objects
        .iter()
        .filter(move |object| kinds.iter().any(|kind| object["kind"] == *kind))
        .flat_map(|object| object["webhooks"].as_array().into_iter().flatten())
        .flat_map(|hook| hook["matchConditions"].as_array().into_iter().flatten())
}

/// The arguments of all Deployments.
fn arguments(objects: &[Value]) -> Vec<String> {
    objects
        .iter()
        .filter(|object| object["kind"] == "Deployment")
        .filter_map(|object| object.pointer("/spec/template/spec/containers/0/args")?.as_array())
        .flatten()
        .filter_map(|argument| argument.as_str().map(str::to_owned))
        .collect()
}

/// Every place that says who the controllers are says the same.
fn identities(objects: &[Value], writer: &str, accounts: &[&str]) -> Result<()> {
    let of = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found: Vec<String> =
        of("ServiceAccount").map(|account| text(&account["metadata"]["name"])).collect();
    found.retain(|name| name.starts_with("vela-"));
    found.sort();
    ensure!(found == accounts, "the ServiceAccounts are {found:?}");

    let arguments = arguments(objects);
    let own = arguments.iter().any(|one| one == "--use-service-account-credentials");
    ensure!(own != accounts.is_empty(), "the controller does not know of its accounts, or of none");
    let writer = format!("system:serviceaccount:vela-system:{writer}");
    let exempt: Vec<&str> =
        arguments.iter().filter_map(|one| one.strip_prefix("--controller-identity=")).collect();
    ensure!(exempt == [&*writer], "the webhook does not stamp {exempt:?}");

    let conditions =
        conditions(objects).filter(|condition| condition["name"] == "not-the-controller");
    let wanted = format!("request.userInfo.username != \"{writer}\"");
    let asked: Vec<String> = conditions.map(|condition| text(&condition["expression"])).collect();
    ensure!(asked == [&*wanted, &wanted], "the webhook is not asked about {asked:?}");

    // Tokens are for these accounts and no others, and every one has rights.
    let rules = of("Role").flat_map(|role| role["rules"].as_array().into_iter().flatten());
    let tokens: Vec<&Value> =
        rules.filter(|rule| rule["resources"][0] == "serviceaccounts/token").collect();
    ensure!(tokens.len() == usize::from(own), "the roles for tokens are {tokens:?}");
    for rule in tokens {
        let mut names: Vec<String> =
            rule["resourceNames"].as_array().into_iter().flatten().map(text).collect();
        names.sort();
        ensure!(names == accounts, "the tokens are those of {names:?}");
    }
    for account in accounts {
        let bound =
            of("ClusterRoleBinding").any(|binding| binding["subjects"][0]["name"] == *account);
        ensure!(bound, "{account} has no rights");
    }
    Ok(())
}

fn template(helm: &Helm, values: &[&str]) -> Result<String> {
    let chart = chart();
    let chart = chart.to_string_lossy();
    let mut nulls = Vec::new();
    let mut args = vec!["template", RELEASE, &chart, "--include-crds"];
    args.extend(["--api-versions", "monitoring.coreos.com/v1"]);
    args.extend(["--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"]);
    for value in values {
        // A block that is null takes no value any more: what is in it goes one by one.
        match *value {
            "authentication=null" => {
                for key in ["withUser", "defaultUser", "groupPattern", "adminGroup"] {
                    nulls.push(format!("authentication.{key}=null"));
                }
            }
            value => args.extend(["--set", value]),
        }
    }
    args.extend(nulls.iter().flat_map(|null| ["--set", null]));
    if !values.iter().any(|value| value.starts_with(AUTHENTICATION)) {
        args.extend(["--set", "authentication.enabled=true"]);
    }
    helm.run(&args)
}

fn identity(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!(
        "{} {} {} {}",
        object["apiVersion"], object["kind"], metadata["namespace"], metadata["name"]
    )
}
