//! What the chart makes of replicas that share the Applications: strategy, budget, spread, alarms, the autoscaler, and the order in which
//! the API server serves them. Needs no cluster.

use serde_json::{Value, json};
use vela_tests::deploy::{AUTHENTICATION, RELEASE};
use vela_tests::material;
use vela_tests::release::{Helm, chart};

/// The objects that the chart makes with settings, on a cluster that serves APIs.
fn render(settings: &[&str], apis: &[&str]) -> Result<Vec<Value>, String> {
    let helm = Helm::new(&material::target().join("helm")).unwrap();
    let chart = chart();
    let mut args = vec!["template", RELEASE, chart.to_str().unwrap()];
    let authentication = format!("{AUTHENTICATION}=true");
    for setting in settings.iter().copied().chain([authentication.as_str()]) {
        args.extend(["--set", setting]);
    }
    for api in apis {
        args.extend(["--api-versions", api]);
    }
    let text = helm.run(&args).map_err(|error| format!("{error:#}"))?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    Ok(objects.into_iter().filter(Value::is_object).collect())
}

/// The controller's object of a kind; null if there is none.
fn object(objects: &[Value], kind: &str) -> Value {
    let is_it = |object: &&Value| {
        object["kind"] == kind && object["metadata"]["name"] == "kubevela-vela-core"
    };
    objects.iter().find(is_it).cloned().unwrap_or_default()
}

const AUTO: &str = "sharding.mode=auto";
const SCALED: &str = "sharding.autoscaling.enabled=true";
const CUSTOM_METRICS: &str = "custom.metrics.k8s.io/v1beta1";

#[test]
fn replicas_that_share_are_replaced_one_by_one_and_spread() {
    let alone = render(&["replicaCount=3"], &[]).unwrap();
    let deployment = object(&alone, "Deployment");
    assert_eq!(deployment["spec"]["strategy"], Value::Null);
    let spread = "/spec/template/spec/topologySpreadConstraints";
    assert_eq!(deployment.pointer(spread), None);
    assert_eq!(object(&alone, "PodDisruptionBudget"), Value::Null);

    let shared = render(&[AUTO, "replicaCount=3"], &[]).unwrap();
    let deployment = object(&shared, "Deployment");
    let spec = &deployment["spec"];
    assert_eq!(spec["replicas"], 3);
    assert_eq!(spec["strategy"]["rollingUpdate"], json!({"maxSurge": 1, "maxUnavailable": 0}));
    assert_eq!(spec["template"]["spec"]["terminationGracePeriodSeconds"], 60);
    let constraints = deployment.pointer(spread).and_then(Value::as_array).unwrap();
    let over: Vec<&Value> = constraints.iter().map(|one| &one["topologyKey"]).collect();
    assert_eq!(over, ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]);
    for constraint in constraints {
        // A node or zone that is away must not keep a replica from starting.
        assert_eq!(constraint["whenUnsatisfiable"], "ScheduleAnyway");
        assert_eq!(constraint["labelSelector"], spec["selector"]);
    }
    let budget = object(&shared, "PodDisruptionBudget");
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    assert_eq!(budget["spec"]["selector"], spec["selector"]);
    assert_eq!(object(&shared, "HorizontalPodAutoscaler"), Value::Null);
    // One replica may be evicted: nobody waits for it.
    let one = render(&[AUTO], &[]).unwrap();
    assert_eq!(object(&one, "PodDisruptionBudget"), Value::Null);
    let own = render(&[AUTO, "controller.topologySpreadConstraints[0].maxSkew=2"], &[]).unwrap();
    let own = object(&own, "Deployment").pointer(spread).cloned();
    assert_eq!(own, Some(json!([{"maxSkew": 2}])));
}

#[test]
fn the_autoscaler_goes_by_the_backlog_where_the_cluster_serves_it() {
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 70}}});
    let backlog = |seconds: &str| {
        json!({"type": "Pods", "pods": {
            "metric": {"name": "vela_backlog_seconds",
                "selector": {"matchLabels": {"controller": "application"}}},
            "target": {"type": "AverageValue", "averageValue": seconds}}})
    };
    let cases: [(&[&str], &[&str], Value); 4] = [
        (&[], &[], json!([cpu])),
        (&[], &[CUSTOM_METRICS], json!([backlog("5"), cpu])),
        (
            &[
                "sharding.autoscaling.targetCPUUtilizationPercentage=0",
                "sharding.autoscaling.targetBacklogSeconds=20",
            ],
            &["custom.metrics.k8s.io/v1beta2"],
            json!([backlog("20")]),
        ),
        (&["sharding.autoscaling.targetBacklogSeconds=0"], &[CUSTOM_METRICS], json!([cpu])),
    ];
    for (settings, apis, metrics) in cases {
        let objects = render(&[&[AUTO, SCALED], settings].concat(), apis).unwrap();
        let spec = &object(&objects, "HorizontalPodAutoscaler")["spec"];
        assert_eq!(spec["metrics"], metrics, "{settings:?} {apis:?}");
        assert_eq!((&spec["minReplicas"], &spec["maxReplicas"]), (&json!(2), &json!(10)));
        // Two writers of the number would fight.
        let deployment = object(&objects, "Deployment");
        assert_eq!(deployment["spec"]["replicas"], Value::Null);
        assert_eq!(spec["scaleTargetRef"]["name"], deployment["metadata"]["name"]);
        assert_eq!(object(&objects, "PodDisruptionBudget")["spec"]["maxUnavailable"], 1);
    }
    for (settings, reason) in [
        (&[SCALED][..], "needs sharding.mode=auto"),
        (&[AUTO, SCALED, "sharding.autoscaling.targetCPUUtilizationPercentage=0"], "has no target"),
        (&[AUTO, SCALED, "sharding.autoscaling.minReplicas=0"], "minReplicas"),
        (&[AUTO, "sharding.autoscaling.enabled=perhaps"], "enabled"),
        (&[AUTO, "sharding.autoscaling.replicas=3"], "replicas"),
    ] {
        let error = render(settings, &[CUSTOM_METRICS][..usize::from(reason != "has no target")]);
        let error = error.expect_err(&format!("{settings:?}"));
        assert!(error.contains(reason), "{settings:?}: {error}");
    }
}

#[test]
fn alarms_of_sharing_come_with_it_and_follow_the_period_of_resync() {
    let monitored = ["core.metrics.enabled=true", "core.metrics.rules.enabled=true"];
    let alarms = |settings: &[&str]| {
        let apis = ["monitoring.coreos.com/v1"];
        let objects = render(&[&monitored, settings].concat(), &apis).unwrap();
        let rules = object(&objects, "PrometheusRule")["spec"]["groups"][0]["rules"].clone();
        let rules = rules.as_array().cloned().unwrap_or_default();
        let of_shards = |rule: &Value| {
            let expression = rule["expr"].as_str().unwrap_or_default().to_owned();
            let name = rule["alert"].as_str()?.to_owned();
            expression.contains("vela_shard_").then_some((name, expression))
        };
        rules.iter().filter_map(of_shards).collect::<Vec<_>>()
    };
    assert_eq!(alarms(&[]), []);
    for (period, seconds) in [("5m", 600), ("1h30m", 10_800), ("90s", 180)] {
        let found = alarms(&[AUTO, &format!("controllerArgs.reSyncPeriod={period}")]);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let wanted = [
            "VelaShardUnowned",
            "VelaMemberFlaps",
            "VelaShardNotReady",
            "VelaShardGap",
            "VelaHandoverSlow",
        ];
        assert_eq!(names, wanted);
        let gap = format!("max(vela_shard_gap_seconds{{namespace=\"vela-system\"}}) > {seconds}");
        assert_eq!(found[3].1, gap, "{period}");
    }
}

#[test]
fn leases_have_a_priority_of_their_own() {
    let named = |objects: &[Value], name: &str| {
        let is_it =
            |object: &&Value| object["kind"] == "FlowSchema" && object["metadata"]["name"] == name;
        objects.iter().find(is_it).map(|object| object["spec"].clone()).unwrap_or_default()
    };
    let accounts = |schema: &Value| -> Vec<String> {
        let subjects = schema["rules"][0]["subjects"].as_array().cloned().unwrap_or_default();
        let name = |subject: &Value| {
            assert_eq!(subject["kind"], "ServiceAccount");
            assert_eq!(subject["serviceAccount"]["namespace"], "vela-system");
            subject["serviceAccount"]["name"].as_str().unwrap().to_owned()
        };
        subjects.iter().map(name).collect()
    };
    let controller = "kubevela-vela-core";
    let webhook = "kubevela-vela-core-webhook";
    for (settings, all) in [
        (&[][..], vec![controller, webhook]),
        (&["admissionWebhooks.enabled=false"], vec![controller]),
        (&["serviceAccount.name=mine", "serviceAccount.create=false"], vec!["mine", webhook]),
        (
            &["controller.serviceAccountCredentials=true"],
            vec![
                controller,
                "vela-certificates-controller",
                "vela-componentdefinition-controller",
                "vela-traitdefinition-controller",
                "vela-policydefinition-controller",
                "vela-workflowstepdefinition-controller",
                "vela-application-controller",
                webhook,
            ],
        ),
    ] {
        let objects = render(settings, &[]).unwrap();
        let leases = named(&objects, "kubevela-vela-core-leases");
        assert_eq!(leases["priorityLevelConfiguration"]["name"], "leader-election");
        let resources = json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "verbs": ["*"], "namespaces": ["vela-system"]}]);
        assert_eq!(leases["rules"][0]["resourceRules"], resources);
        let requests = named(&objects, "kubevela-vela-core-requests");
        assert_eq!(requests["priorityLevelConfiguration"]["name"], "workload-high");
        assert_eq!(requests["distinguisherMethod"]["type"], "ByNamespace");
        // Watches stay with those of all ServiceAccounts, and lists but of what is recorded of an Application.
        let everywhere = |groups: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [groups], "resources": resources, "verbs": verbs, "namespaces": ["*"], "clusterScope": true});
        let verbs = ["get", "create", "update", "patch", "delete", "deletecollection"];
        let records = ["applicationrevisions", "resourcetrackers"];
        let resources = json!([
            everywhere("*", &["*"], &verbs),
            everywhere("core.oam.dev", &records, &["list"])
        ]);
        assert_eq!(requests["rules"][0]["resourceRules"], resources);
        // A Lease is both, and what the cluster brings for all ServiceAccounts comes after both (9000).
        let precedence = |schema: &Value| schema["matchingPrecedence"].as_u64().unwrap();
        assert!(precedence(&leases) < precedence(&requests) && precedence(&requests) < 9_000);
        let of_controllers: Vec<&str> =
            all.iter().copied().filter(|name| *name != webhook).collect();
        assert_eq!(accounts(&leases), of_controllers, "{settings:?}");
        assert_eq!(accounts(&requests), all, "{settings:?}");
    }
    let none = render(&["apf.create=false"], &[]).unwrap();
    assert!(none.iter().all(|object| object["kind"] != "FlowSchema"));
}
