//! Tests of flags: the configurations they give, and refused values.

use super::*;

fn config(args: &[&str]) -> Result<Config, String> {
    let args = args.iter().map(std::ffi::OsString::from);
    let parsed = vela_serve::flags::parse::<Flags>(args).map_err(|e| e.to_string())?;
    Config::try_from(parsed.flags).map_err(|error| error.to_string())
}

/// The chart takes the version from its `appVersion`, whose first part is that of KubeVela.
#[test]
fn the_chart_and_the_default_advertise_one_version() {
    let chart = include_str!("../../../charts/vela-core/Chart.yaml");
    let mut lines = chart.lines();
    let version = lines.find_map(|line| line.strip_prefix("appVersion: ")).unwrap();
    let (version, _) = version.trim_matches('"').split_once('-').unwrap();
    assert_eq!(version, vela_api::KUBEVELA_VERSION);
    assert_eq!(config(&[]).unwrap().version, vela_api::KUBEVELA_VERSION);
    assert_eq!(config(&["--advertised-version=v1.12.0"]).unwrap().version, "v1.12.0");
}

#[test]
fn defaults_are_the_references() {
    let config = config(&[]).unwrap();
    assert!(config.election.is_none());
    assert_eq!(config.resync, Duration::from_secs(300));
    assert_eq!((config.workers, config.application_revision_limit), (4, 10));
    assert_eq!(config.definition_revision_limit, 20);
    assert_eq!(config.workflow.max_error_retries, 10);
    assert!(config.allow_cross_namespace);
}

#[test]
fn gates_have_their_side_effects_and_mistakes_are_one_line() {
    let once = config(&["--feature-gates=ApplyOnce=true"]).unwrap();
    assert_eq!(once.resync, Duration::from_secs(36_000));
    let error = config(&["--feature-gates=Nonsense=true"]).unwrap_err();
    assert!(error.starts_with("--feature-gates: unknown feature gate"), "{error}");
    let error = config(&["--namespace-weights=team-a=0"]).unwrap_err();
    assert!(error.contains("--namespace-weights") && error.contains("from 1 to 100"), "{error}");
    let error = config(&["--cluster-exchange-rules=rules"]).unwrap_err();
    assert!(error.contains("NAMESPACE/NAME"), "{error}");
    let error = config(&["--allow-resource-types=Deployment"]).unwrap_err();
    assert!(error.starts_with("--allow-resource-types:"), "{error}");
    let error = config(&["--controllers=*,-aplication"]).unwrap_err();
    assert!(error.contains("application"), "{error}");
}

#[test]
fn a_shard_has_a_name_and_all_but_the_master_handle_nothing_but_applications() {
    let shard = |args: &[&str]| config(args).map(|config| (config.shard.clone(), config));
    assert_eq!(shard(&["--shard-id=a"]).unwrap().0, None);
    let (master, config) = shard(&["--enable-sharding"]).unwrap();
    assert_eq!(master.as_deref(), Some("master"));
    assert_eq!(config.requesting().len(), 5);
    let managed = ["--use-webhook=true", "--webhook-certificates=managed"];
    let other = [managed.as_slice(), &["--enable-sharding", "--shard-id=shard-1"]].concat();
    let (other, config) = shard(&other).unwrap();
    assert_eq!(other.as_deref(), Some("shard-1"));
    assert_eq!(config.requesting(), ["application"]);
    assert!(config.certificates.is_empty());
    for bad in ["", "A", "a_b", "-a", "a-", "a,b", &"a".repeat(64)] {
        let error = shard(&["--enable-sharding", &format!("--shard-id={bad}")]).unwrap_err();
        assert!(error.starts_with("--shard-id: "), "{error}");
    }
}

#[test]
fn a_fleet_needs_an_election_and_times_that_can_work() {
    const AUTO: [&str; 2] = ["--sharding=auto", "--enable-leader-election"];
    assert!(config(&AUTO).unwrap().fleet.is_some());
    assert!(config(&[]).unwrap().fleet.is_none());
    for (flags, why) in [
        (&["--enable-sharding"][..], "--enable-sharding is the other way"),
        (&["--shard-id=shard-0"], "--shard-id needs the admission webhook"),
        (&["--shard-id=shards", "--use-webhook"], "nor begin with `member-`"),
        (&["--shard-id=Shard_0", "--use-webhook"], "lower case letters"),
        (&["--shard-lease-duration=7s"], "at least 1.5 times"),
        (&["--shard-retry-period=3s"], "at least twice"),
        (&["--leader-election-lease-duration=9s"], "at least 10s"),
    ] {
        let error = config(&[&AUTO, flags].concat()).unwrap_err();
        assert!(error.starts_with("--sharding=auto: ") && error.contains(why), "{error}");
    }
    assert!(config(&AUTO[..1]).unwrap_err().contains("--enable-leader-election is needed"));
    assert!(config(&["--sharding=on"]).is_err());
}

#[test]
fn settings_that_would_open_everything_are_refused() {
    const ON: &str = "--feature-gates=AuthenticateApplication=true";
    assert!(config(&[ON, "--stamp-key-secret=k"]).unwrap().acting.authenticate);
    for user in ["", " "] {
        let flag = format!("--authentication-default-user={user}");
        let error = config(&[ON, "--stamp-key-secret=k", &flag]).unwrap_err();
        assert!(error.contains("--authentication-default-user"), "{error}");
    }
    assert!(config(&[ON]).unwrap_err().contains("--stamp-key-secret"));
}

#[test]
fn only_who_has_work_sends_requests() {
    let requesting = |args: &[&str]| config(args).unwrap().requesting();
    let managed = ["--use-webhook=true", "--webhook-certificates=managed"];
    let all = requesting(&managed);
    assert_eq!((all.len(), all[0]), (6, "certificates"));
    let external = requesting(&["--use-webhook=true", "--webhook-certificates=external"]);
    assert_eq!(external, all[1..]);
    assert_eq!(requesting(&[]), all[1..]);
    let without = [managed.as_slice(), &["--controllers=*,-certs,-application"]].concat();
    assert_eq!(requesting(&without), all[1..5]);
    assert!(config(&without).unwrap().certificates.is_empty());
    let both = [managed.as_slice(), &["--gateway-certificates=managed"]].concat();
    assert_eq!(config(&both).unwrap().certificates.len(), 2);
    assert_eq!(requesting(&["--gateway-certificates=managed"])[0], "certificates");
}
