//! The identity of an Application: its author, if its stamp is valid.
//!
//! Answers for `pkg/auth/userinfo.go`, which believes the annotations. As whom which author acts:
//! [`vela_cluster::Acting`]; the whole table: docs/security-model.md.

use std::hash::{DefaultHasher, Hash, Hasher};

use vela_api::Application;
use vela_api::names::annotation;
use vela_cluster::{ApiError, Identity};
use vela_seal::{Stamp, Subject};

use super::facts;
use crate::application::context::AppContext;
use crate::events::Severity;
use crate::messages;
use crate::queue::Key;

/// Who acts, and what the author should know about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actor {
    /// As whom requests are made.
    pub identity: Identity,
    /// Why that is not the author with all his rights.
    pub doubt: Option<String>,
}

/// Who acts for an Application, as it is stored.
///
/// # Errors
/// The API server does not say whether the author is an administrator still.
pub async fn of(ctx: &AppContext, app: &Application) -> Result<Actor, ApiError> {
    let acting = &ctx.settings.acting;
    let annotation = |key: &str| facts::annotation(&app.metadata, key);
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let stamp = if acting.authenticate { stamp(ctx, app) } else { None };
    let evidence = stamp.as_ref().and_then(|stamp| stamp.administrator.as_ref());
    let is_administrator = match evidence {
        Some(evidence) => ctx.administrators.is_one(evidence).await?,
        None => false,
    };
    let identity = acting.identity(annotation, namespace, stamp.as_ref(), is_administrator);
    let doubt = match (&stamp, evidence) {
        // Not stamped: it acts as the default user, and its author should know why rights are
        // missing.
        (None, _) if acting.authenticate => {
            let name = app.metadata.name.as_deref().unwrap_or_default();
            Some(messages::not_stamped(&acting.default_user, namespace, name))
        }
        (_, Some(evidence)) if !is_administrator => {
            Some(messages::no_administrator(&evidence.to_string(), &acting.admin_group))
        }
        _ => None,
    };
    if let Some(doubt) = &doubt {
        // Once for each generation.
        let once = app.metadata.generation.unwrap_or_default().to_string();
        ctx.events.emit(&facts::about(app), Severity::Warning, "NotStamped", doubt, &once);
    }
    Ok(Actor { identity, doubt })
}

/// Who wrote an Application, if its stamp is valid. What it is about is hashed once for every generation of the spec.
#[must_use]
pub fn stamp(ctx: &AppContext, app: &Application) -> Option<Stamp> {
    let keys = ctx.keys.get()?;
    let annotation = |key: &str| facts::annotation(&app.metadata, key);
    let [namespace, name] = [&app.metadata.namespace, &app.metadata.name]
        .map(|text| text.as_deref().unwrap_or_default());
    // Verifying a stamp hashes the whole spec, which every reconcile would do again.
    let seen = {
        let mut hasher = DefaultHasher::new();
        (keys.id(), keys.bytes().1.is_some(), &app.metadata.uid).hash(&mut hasher);
        app.metadata.generation.hash(&mut hasher);
        // Signed along with the spec: both decide what is deployed.
        let others = [annotation::PUBLISH_VERSION, annotation::AUTO_UPDATE];
        annotation::IDENTITY.iter().chain(&others).for_each(|key| {
            annotation(key).hash(&mut hasher);
        });
        hasher.finish()
    };
    let memory = ctx.memory(&Key::new(namespace, name));
    if let Some((known, stamp)) = &memory.lock().stamp
        && *known == seen
    {
        return stamp.clone();
    }
    let publish_version = annotation(annotation::PUBLISH_VERSION);
    let auto_update = annotation(annotation::AUTO_UPDATE);
    let content = vela_seal::application(&app.spec, publish_version, auto_update);
    let stamp = content.ok().and_then(|content| {
        let subject = Subject { kind: Application::KIND, namespace, name, content };
        Stamp::verified(annotation, &keys, &subject)
    });
    memory.lock().stamp = Some((seen, stamp.clone()));
    stamp
}
