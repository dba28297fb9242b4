//! The decision which certificates to issue or renew: a pure function of the stored state. No clock, no client.
//!
//! A change of authority goes in this order, so that no call fails: the new one joins the bundle;
//! when all configurations carry it, the leaf changes; when Pods have had time to load the new
//! leaf, the old authority leaves the bundle. A leaf that is of no use is replaced at once.

use jiff::{SignedDuration, Timestamp};

use crate::bundle::{self, Facts};
use crate::issue::{self, IssueError, Key, Pem};

/// How long the bundle keeps the authority of a leaf that was replaced: the kubelet brings a
/// changed Secret into Pods within about two minutes; a node that is away may take longer.
pub const OVERLAP: SignedDuration = SignedDuration::from_hours(24);
/// API servers see a changed configuration through a watch.
pub const PROPAGATION: SignedDuration = SignedDuration::from_secs(5);

/// The Secret with the authority, as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthoritySecret {
    /// `tls.crt`
    pub cert: String,
    /// `tls.key`
    pub key: Option<Key>,
    /// `previous.crt`: authorities that are on their way out.
    pub previous: String,
    /// Annotation: when this authority was made.
    pub since: Option<Timestamp>,
}

/// The Secret that Pods mount, as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServingSecret {
    /// `tls.crt`
    pub cert: String,
    /// `tls.key`
    pub key: Option<Key>,
    /// `ca.crt`, or `ca` as the Go chart's jobs write it.
    pub ca: String,
    /// Annotation: when this leaf was made by us.
    pub since: Option<Timestamp>,
}

/// What is there.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The authority.
    pub authority: Option<AuthoritySecret>,
    /// The leaf.
    pub serving: Option<ServingSecret>,
    /// The bundles that the webhook configurations carry now, one for each entry.
    pub bundles: Vec<String>,
}

/// What should be there. Absent means: as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Write the authority's Secret.
    pub authority: Option<AuthoritySecret>,
    /// Write the serving Secret.
    pub serving: Option<ServingSecret>,
    /// What every entry of the configurations must carry.
    pub bundle: String,
    /// Reconcile again at this moment, even if nothing changes.
    pub again: Option<Timestamp>,
    /// What is done, for the log.
    pub reason: Option<&'static str>,
}

/// Decides.
///
/// # Errors
/// When a certificate must be made and cannot be.
pub fn decide(state: &State, hosts: &[String], now: Timestamp) -> Result<Plan, IssueError> {
    let mut plan = Plan::default();
    let serving = state.serving.clone().unwrap_or_default();
    let leaf = Facts::of_pem(&serving.cert);

    // The authority.
    let stored = state.authority.clone().unwrap_or_default();
    let stored_facts =
        Facts::of_pem(&stored.cert).filter(|facts| facts.is_authority && stored.key.is_some());
    let mut authority = match &stored_facts {
        Some(facts) if !facts.is_due(now) => stored.clone(),
        _ => {
            plan.reason = Some(match &stored_facts {
                Some(_) => "the authority nears its end",
                None => "there is no authority",
            });
            let made = issue::authority(now)?;
            // What signed the leaf that is in use: also one that is not ours. If both Secrets are
            // gone, Pods still serve the old leaf for a while, and only the configurations know
            // its authority; they are believed when they all say the same.
            let is_lost = stored.cert.is_empty() && serving.ca.is_empty();
            let agreed = match state.bundles.split_first() {
                Some((first, rest)) if is_lost && rest.iter().all(|one| one == first) => first,
                _ => "",
            };
            let known = [&stored.cert, &stored.previous, &serving.ca].map(String::as_str);
            AuthoritySecret {
                cert: made.cert,
                key: Some(made.key),
                previous: bundle::join(known.into_iter().chain([agreed]), now),
                since: Some(now),
            }
        }
    };
    let facts = Facts::of_pem(&authority.cert);
    let name = facts.as_ref().map(|facts| facts.subject.clone()).unwrap_or_default();

    // The leaf.
    let is_usable = leaf.as_ref().is_some_and(|leaf| {
        leaf.holds_at(now)
            && hosts
                .iter()
                .all(|host| host.ends_with(".cluster.local") || leaf.hosts.contains(host))
            && fits(&serving)
            && !serving.ca.is_empty()
    });
    let is_ours = leaf.as_ref().zip(facts.as_ref()).is_some_and(|(leaf, authority)| {
        leaf.issuer == authority.subject
            && leaf.signed_by.is_some()
            && leaf.signed_by == authority.key_id
    });
    let is_due = leaf.as_ref().is_none_or(|leaf| leaf.is_due(now));
    let carried = !state.bundles.is_empty()
        && state.bundles.iter().all(|bundle| bundle::contains(bundle, &authority.cert));
    let settled = authority.since.is_none_or(|since| now >= since + PROPAGATION);
    let change = match (is_usable, is_ours, is_due) {
        (false, ..) => Some("the certificate is missing or unusable"),
        (true, true, true) => Some("the certificate nears its end"),
        (true, true, false) => None,
        // Usable, but of another authority: wait until everybody trusts ours.
        (true, false, _) if carried && settled => Some("the certificate is of another authority"),
        (true, false, _) => {
            plan.again = Some(now + PROPAGATION);
            None
        }
    };
    let mut next = serving.clone();
    if let Some(change) = change {
        plan.reason = plan.reason.or(Some(change));
        let key = authority.key.clone().unwrap_or_else(|| Key(String::new()));
        let signer = Pem { cert: authority.cert.clone(), key };
        let made = issue::leaf(&signer, &name, hosts, now)?;
        next = ServingSecret {
            cert: made.cert,
            key: Some(made.key),
            ca: String::new(),
            since: Some(now),
        };
    }

    // The bundle: ours, and what older leaves may still need.
    let leaf_since = next.since.unwrap_or(now);
    let is_over = change.is_none() && is_ours && now >= leaf_since + OVERLAP;
    if is_over && !authority.previous.is_empty() {
        authority.previous.clear();
        plan.reason = plan.reason.or(Some("the old authority is not needed any more"));
    }
    plan.bundle = bundle::join([authority.cert.as_str(), authority.previous.as_str()], now);
    if !authority.previous.is_empty() && plan.again.is_none() {
        plan.again = Some(leaf_since + OVERLAP);
    }
    next.ca.clone_from(&plan.bundle);

    if authority != stored {
        plan.authority = Some(authority);
    }
    if next != serving {
        plan.serving = Some(next);
    }
    Ok(plan)
}

/// Whether key and certificate belong together, as far as we can read the key (older jobs wrote a
/// form that only TLS libraries read: those are taken for good).
fn fits(serving: &ServingSecret) -> bool {
    let Some(key) = serving.key.as_ref().filter(|key| key.0.contains("PRIVATE KEY")) else {
        return false;
    };
    let Ok(key) = rcgen::KeyPair::from_pem(&key.0) else {
        return key.0.contains("EC PRIVATE KEY") || key.0.contains("RSA PRIVATE KEY");
    };
    use rustls_pki_types::pem::PemObject as _;
    let Some(Ok(der)) =
        rustls_pki_types::CertificateDer::pem_slice_iter(serving.cert.as_bytes()).next()
    else {
        return false;
    };
    let public = key.public_key_raw().to_vec();
    !public.is_empty() && der.windows(public.len()).any(|window| window == public)
}

#[cfg(test)]
mod tests;
