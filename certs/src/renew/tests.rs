//! The life of a certificate, moment by moment.

use super::*;

fn hosts() -> Vec<String> {
    vec!["vela-core-webhook".to_owned(), "vela-core-webhook.vela-system.svc".to_owned()]
}

fn start() -> Timestamp {
    "2026-03-01T12:34:56Z".parse().unwrap()
}

fn days(n: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * n)
}

/// Does what the plan says.
fn act(state: &mut State, plan: &Plan) {
    if let Some(authority) = &plan.authority {
        state.authority = Some(authority.clone());
    }
    if let Some(serving) = &plan.serving {
        state.serving = Some(serving.clone());
    }
    state.bundles = vec![plan.bundle.clone(); 7];
}

fn step(state: &mut State, now: Timestamp) -> Plan {
    let plan = decide(state, &hosts(), now).unwrap();
    act(state, &plan);
    plan
}

/// The leaf that is served verifies against what every configuration carries.
fn is_trusted(state: &State) -> bool {
    let leaf = Facts::of_pem(&state.serving.as_ref().unwrap().cert).unwrap();
    state.bundles.iter().all(|bundle| {
        bundle.split_inclusive("-----END CERTIFICATE-----\n").filter_map(Facts::of_pem).any(|ca| {
            ca.subject == leaf.issuer && (leaf.signed_by.is_none() || leaf.signed_by == ca.key_id)
        })
    })
}

fn installed() -> State {
    let mut state = State::default();
    step(&mut state, start());
    state
}

#[test]
fn a_new_installation_is_complete_at_once_and_then_at_rest() {
    let mut state = State::default();
    let plan = step(&mut state, start());
    assert_eq!(plan.reason, Some("there is no authority"));
    let leaf = Facts::of_pem(&state.serving.as_ref().unwrap().cert).unwrap();
    assert_eq!(leaf.hosts, hosts());
    assert_eq!(leaf.not_after, start() + days(365));
    assert!(leaf.holds_at(start() - SignedDuration::from_secs(60)), "clocks differ");
    assert!(is_trusted(&state));
    for hours in [0, 1, 30, 24 * 200] {
        let now = start() + SignedDuration::from_hours(hours);
        let plan = step(&mut state, now);
        assert_eq!((plan.authority, plan.serving), (None, None), "after {hours} hours");
    }
}

#[test]
fn the_leaf_is_renewed_at_two_thirds_under_the_same_authority() {
    let mut state = installed();
    let before = state.clone();
    let now = start() + days(244);
    let plan = step(&mut state, now);
    assert_eq!(plan.reason, Some("the certificate nears its end"));
    assert_eq!(plan.authority, None);
    assert_eq!(before.bundles, state.bundles);
    assert!(is_trusted(&state));
}

#[test]
fn a_change_of_authority_overlaps() {
    let mut state = installed();
    let mut now = start();
    // leaves are renewed in the meantime
    for _ in 0..4 {
        now += days(245);
        assert_eq!(step(&mut state, now).authority, None);
    }
    let old = state.bundles[0].clone();
    now = start() + days(1217);
    let plan = step(&mut state, now);
    assert_eq!(plan.reason, Some("the authority nears its end"));
    assert_eq!(plan.again, Some(now + PROPAGATION));
    assert_ne!(old, state.bundles[0]);
    assert!(is_trusted(&state), "the old leaf is trusted while the new authority is made known");
    let plan = step(&mut state, now + PROPAGATION);
    assert_eq!(plan.reason, Some("the certificate is of another authority"));
    assert!(is_trusted(&state));
    assert_eq!(state.bundles[0].matches("BEGIN").count(), 2);
    let plan = step(&mut state, now + PROPAGATION + OVERLAP);
    assert_eq!(plan.reason, Some("the old authority is not needed any more"));
    assert_eq!(state.bundles[0].matches("BEGIN").count(), 1);
    assert!(is_trusted(&state));
}

#[test]
fn damage_is_mended_at_once() {
    let sound = installed();
    let now = start() + days(2);

    let mut state = sound.clone();
    state.bundles = vec![String::new(), "Cg==".to_owned()];
    let plan = decide(&state, &hosts(), now).unwrap();
    assert_eq!(plan.bundle, sound.bundles[0]);
    assert_eq!((plan.authority, plan.serving), (None, None));

    let mut state = sound.clone();
    state.serving = None;
    let plan = step(&mut state, now);
    assert_eq!(plan.reason, Some("the certificate is missing or unusable"));
    assert_eq!(plan.bundle, sound.bundles[0]);
    assert!(is_trusted(&state));

    let mut state = sound.clone();
    state.serving.as_mut().unwrap().key = Some(issue::authority(now).unwrap().key);
    assert!(decide(&state, &hosts(), now).unwrap().serving.is_some(), "a foreign key");

    let mut state = sound.clone();
    let other = ["other.example".to_owned()];
    assert!(decide(&state, &other, now).unwrap().serving.is_some(), "another Service");
    state.serving.as_mut().unwrap().cert = "rubbish".to_owned();
    assert!(decide(&state, &hosts(), now).unwrap().serving.is_some(), "rubbish");

    let mut state = sound.clone();
    state.authority = None;
    step(&mut state, now);
    assert!(is_trusted(&state), "the leaf of the lost authority stays trusted");
    step(&mut state, now + PROPAGATION);
    assert!(is_trusted(&state));
}

#[test]
fn when_both_secrets_are_lost_pods_that_run_stay_trusted() {
    let mut state = installed();
    let now = start() + days(2);
    let leaf = state.serving.take().unwrap();
    let old = state.authority.take().unwrap();
    let plan = step(&mut state, now);
    assert!(bundle::contains(&plan.bundle, &old.cert), "the leaf in use is of this authority");
    assert_ne!(state.serving.as_ref().unwrap().cert, leaf.cert);
    assert!(is_trusted(&state));
    let plan = step(&mut state, now + OVERLAP + PROPAGATION);
    assert!(!bundle::contains(&plan.bundle, &old.cert));

    // Bundles that contradict each other were tampered with: none of them is believed.
    let mut state = installed();
    let authority = state.authority.take().unwrap();
    state.serving = None;
    state.bundles[0] = issue::authority(now).unwrap().cert;
    let plan = step(&mut state, now);
    assert!(!bundle::contains(&plan.bundle, &authority.cert));
    assert_eq!(plan.bundle.matches("BEGIN").count(), 1);
}

#[test]
fn a_secret_of_the_go_chart_is_taken_over_without_a_gap() {
    // its jobs throw the authority's key away
    let theirs = issue::authority(start() - days(100)).unwrap();
    let name = Facts::of_pem(&theirs.cert).unwrap().subject;
    let leaf = issue::leaf(&theirs, &name, &hosts(), start() - days(100)).unwrap();
    let mut state = State {
        authority: None,
        serving: Some(ServingSecret {
            cert: leaf.cert.clone(),
            key: Some(leaf.key),
            ca: theirs.cert.clone(),
            since: None,
        }),
        bundles: vec![theirs.cert.clone(); 7],
    };
    let plan = step(&mut state, start());
    assert_eq!(plan.reason, Some("there is no authority"));
    assert_eq!(state.serving.as_ref().unwrap().cert, leaf.cert, "not yet");
    assert!(is_trusted(&state));
    step(&mut state, start() + PROPAGATION);
    assert_ne!(state.serving.as_ref().unwrap().cert, leaf.cert);
    assert!(is_trusted(&state));
    assert!(bundle::contains(&state.bundles[0], &theirs.cert), "until every Pod has the new one");
}
