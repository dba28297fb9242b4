//! As whom somebody arrives at a member: as its own rules say, else as those of all clusters; else whoever administers the hub as
//! the credential, and everybody else as himself.

use super::exchange::{ExchangeRules, Exchanged};
use crate::Identity;
use crate::impersonate::service_account_of;

/// As whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// As the credential in the Secret.
    Credential,
    /// As somebody else, because a rule says so.
    Exchanged(Identity),
    /// As himself, without the groups that mean something else there.
    Himself(Identity),
}

/// A user of Kubernetes itself, who is somebody else there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("user {0:?} is not impersonated in other clusters")]
pub struct NotImpersonated(pub String);

/// Decides. `rules`: the cluster's own, then those of all; `is_privileged`: of groups whose members act as the credential.
///
/// # Errors
/// The user is one of Kubernetes itself.
pub fn arrival(
    identity: &Identity,
    cluster: &str,
    rules: [&ExchangeRules; 2],
    is_privileged: impl Fn(&str) -> bool,
) -> Result<Arrival, NotImpersonated> {
    match rules.into_iter().find_map(|rules| rules.exchange(identity, cluster)) {
        Some(Exchanged::Credential) => return Ok(Arrival::Credential),
        Some(Exchanged::As(other)) => return Ok(Arrival::Exchanged(other)),
        None => {}
    }
    if identity.groups.iter().any(|group| is_privileged(group)) {
        return Ok(Arrival::Credential);
    }
    let account = service_account_of(&identity.user);
    if identity.user.starts_with("system:") && account.is_none() {
        return Err(NotImpersonated(identity.user.clone()));
    }
    let own = account.map(|namespace| {
        ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
    });
    let goes_along = |group: &&String| {
        !group.starts_with("system:")
            || *group == "system:authenticated"
            || own.as_ref().is_some_and(|own| own.contains(group))
    };
    let groups = identity.groups.iter().filter(goes_along).cloned().collect();
    Ok(Arrival::Himself(Identity { user: identity.user.clone(), groups }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(arrival: &Arrival) -> String {
        match arrival {
            Arrival::Credential => "credential".to_owned(),
            Arrival::Exchanged(other) => format!("as {}", other.user),
            Arrival::Himself(own) => format!("{} {}", own.user, own.groups.join(",")),
        }
    }

    #[test]
    fn who_arrives_as_whom() {
        let account = "system:serviceaccount:team:ci";
        let of_accounts = "system:serviceaccounts,system:serviceaccounts:team";
        let others = "system:serviceaccounts:other,system:serviceaccountsx,system:nodes";
        let everybody = format!("{of_accounts},{others},dev,system:authenticated");
        let stays = format!("{account} {of_accounts},dev,system:authenticated");
        for (user, groups, expected) in [
            ("alice", "dev,system:authenticated", Some("alice dev,system:authenticated")),
            ("alice", "dev,system:nodes,system:serviceaccounts", Some("alice dev")),
            ("alice", "admins,dev", Some("credential")),
            ("alice", "admins2", Some("alice admins2")),
            ("robot", "admins", Some("as r2")),
            ("boss", "", Some("credential")),
            ("system:kube-controller-manager", "", None),
            ("system:anonymous", "system:unauthenticated", None),
            (account, &everybody, Some(&*stays)),
            ("system:serviceaccount:team:", "", None),
            ("system:serviceaccount:a:b:c", "", None),
        ] {
            let rule = |rule: &str| {
                ExchangeRules::read(&format!(
                    "{{apiVersion: cluster.core.oam.dev/v1alpha1, kind: ClusterGatewayProxyConfiguration, \
                     spec: {{clientIdentityExchanger: {{rules: [{{name: r, {rule}}}]}}}}}}"
                ))
                .unwrap()
            };
            let own = rule(
                "source: {user: robot}, type: StaticMappingIdentityExchanger, target: {user: r2}",
            );
            let all = rule("source: {user: boss}, type: PrivilegedIdentityExchanger");
            let groups = groups.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect();
            let identity = Identity { user: user.to_owned(), groups };
            let arrival = arrival(&identity, "edge", [&own, &all], |group| group == "admins");
            assert_eq!(arrival.ok().as_ref().map(text).as_deref(), expected, "{user}");
        }
    }
}
