//! Decides the revision of an Application: the latest, an older one with the same content, or a new one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use vela_api::names::label;
use vela_api::reference::Revision as Reference;
use vela_api::revision::ApplicationRevisionSpec;
use vela_api::{AppStatus, Application, ApplicationRevision, Policy, Workflow};
use vela_apply::tracker::Run;

use crate::messages;

use crate::application::component::RenderInput;
use crate::application::facts;
use crate::application::facts::parse::{self, ParseError, Used};
use crate::application::lifecycle::failure::{Failed, Stop};
use crate::application::revision::store::{self, History};

use crate::application::facts::referred;
use crate::application::facts::resolve::{self, Found};
use crate::application::policies::Transformed;
use crate::application::revision::{self, Choice};
use crate::application::session::Session;

/// What is known of earlier revisions.
pub(in crate::application) struct PriorRevisions {
    pub(in crate::application) history: History,
    /// The one that the status names, as far as it is there.
    pub(in crate::application) latest: Option<ApplicationRevision>,
    /// What it says may be deployed; else it only says whether anything is new.
    pub(in crate::application) believed: bool,
    pub(in crate::application) latest_name: String,
    /// The latest revision says what the Application is, not its spec.
    pub(in crate::application) is_pinned: bool,
    /// A new content of a definition makes a new revision.
    pub(in crate::application) auto_update: bool,
}

/// The revision of this reconcile, and what the Application refers to as that revision has it.
pub(in crate::application) struct Revised {
    pub(in crate::application) name: String,
    pub(in crate::application) input: RenderInput,
    pub(in crate::application) used: Used,
    pub(in crate::application) policies: BTreeMap<String, Policy>,
    pub(in crate::application) workflow: Option<Workflow>,
}

impl Revised {
    /// What the status says of it.
    pub(in crate::application) fn reference(&self) -> Reference {
        Reference {
            name: self.name.clone(),
            revision: revision::number(&self.name),
            revision_hash: self.input.revision_hash.clone(),
        }
    }
}

/// Finds the revision, or makes a new one; the session names it from then on.
pub(in crate::application) async fn run(
    session: &mut Session<'_>,
    mut known: PriorRevisions,
    subject: &Application,
    transformed: Option<&Transformed>,
    found: Found,
    status: &AppStatus,
) -> Result<Revised, Stop> {
    let ctx = session.ctx;
    let _time = ctx.metrics.stage("prepare-current-apprev");
    let parsed = |error: ParseError| Stop::Failed(Failed::parsed(error));
    let Found { used, policies, workflow } = found;
    let mut spec = revision::snapshot(
        subject,
        resolve::stored_policies(&session.owner.namespace, &policies),
        workflow.clone(),
    );
    // Objects that components refer to are part of a revision, and a pinned one keeps those that it
    // has.
    spec.referred_objects = match known.latest.as_ref() {
        Some(pinned) if known.is_pinned => pinned.spec.referred_objects.clone(),
        latest => {
            let latest = latest.filter(|_| known.believed);
            referred::collect(session, subject, latest).await.map_err(parsed)?
        }
    };
    // A rollout that cannot succeed with the definitions of then may follow those of now.
    if known.latest.as_ref().is_some_and(|latest| !latest.status.succeeded) {
        known.auto_update |= resolve::is_undeployed(subject, status, &known.latest_name);
    }
    // Definitions are most of a revision, and seldom decide which one it is.
    let complete = |spec: &mut ApplicationRevisionSpec| {
        revision::embed(spec, &used, &ctx.definitions);
        if let Some(transformed) = transformed {
            transformed.join(spec);
        }
    };
    let (name, hash, mut used, objects) = match choose(session, &known, &mut spec, complete)? {
        (Choice::Latest, _) => {
            let latest =
                known.latest.as_ref().ok_or_else(|| gone(messages::LATEST_REVISION_GONE))?;
            // The policies that made it may be others, although the result is the same.
            if let Some(transformed) = transformed {
                transformed.note(ctx, latest).await;
            }
            (
                known.latest_name,
                hash_of(latest),
                // Components keep the definitions that they were deployed with.
                if known.believed { resolve::renewed(latest, used) } else { used },
                spec.referred_objects,
            )
        }
        (Choice::Older(name), all) => {
            let found = all.iter().find(|r| r.metadata.name.as_deref() == Some(&name));
            if let (Some(transformed), Some(found)) = (transformed, found) {
                transformed.note(ctx, found).await;
            }
            let objects = found.map(|r| r.spec.referred_objects.clone()).unwrap_or_default();
            (name, found.map(hash_of).unwrap_or_default(), used, objects)
        }
        (Choice::New, _) => {
            // Kept apart: the spec goes into the revision.
            let objects = spec.referred_objects.clone();
            let mut new = store::draft(ctx, session, subject, spec, &known.history, status);
            if let Some(transformed) = transformed {
                transformed.mark(&mut new.object);
            }
            let (name, hash) = (new.name.clone(), new.hash.clone());
            session.unstored = Some(new);
            // What has effects before the first dispatch must find the revision stored.
            if !is_plain(session, subject, &name) && session.store_revision().await.is_err() {
                return Err(Stop::Named(None));
            }
            (name, hash, used, objects)
        }
    };
    used.referred = referred::assign(ctx, subject, &objects).await.map_err(parsed)?;
    session.revision.clone_from(&name);
    let custom = transformed.and_then(|transformed| transformed.custom.clone());
    let not_inherited = Arc::clone(&ctx.settings.not_inherited);
    let common = render_input(subject, &name, &hash, custom, not_inherited);
    Ok(Revised { name, input: common, used, policies, workflow })
}

fn gone(text: &str) -> Stop {
    Stop::Failed(Failed::revision(text))
}

/// Which revision says what `spec` says. The older ones are checked, and returned, only if there is something new to the
/// latest; then `spec` is complete.
fn choose(
    session: &Session<'_>,
    known: &PriorRevisions,
    spec: &mut ApplicationRevisionSpec,
    complete: impl Fn(&mut ApplicationRevisionSpec),
) -> Result<(Choice, Vec<ApplicationRevision>), Stop> {
    // A pinned revision is what it is: nothing is compared.
    if known.is_pinned {
        return Ok((Choice::Latest, Vec::new()));
    }
    let choose = |spec: &ApplicationRevisionSpec, all: &[ApplicationRevision]| {
        revision::choose(spec, &session.publish_version, &known.latest_name, all, known.auto_update)
    };
    // Comparing definitions needs them in the spec.
    if known.auto_update {
        complete(spec);
    }
    // The usual case, decided without opening an older revision.
    if choose(spec, known.latest.as_slice()) == Choice::Latest {
        return Ok((Choice::Latest, Vec::new()));
    }
    complete(spec);
    let all =
        known.history.open_all(&known.latest_name).map_err(|error| gone(&error.to_string()))?;
    Ok((choose(spec, &all), all))
}

fn hash_of(revision: &ApplicationRevision) -> String {
    facts::label(&revision.metadata, label::APP_REVISION_HASH).to_owned()
}

/// Whether all that comes of a new revision is what its components are dispatched to: then it is stored in parallel with the dry run
/// of that. Whatever else has an effect finds it stored.
fn is_plain(session: &Session<'_>, subject: &Application, revision: &str) -> bool {
    let run = Run { revision, ..session.run() };
    subject.spec.workflow.is_none()
        && !subject.spec.components.is_empty()
        && parse::rendered_policies(&subject.spec.policies).next().is_none()
        // Without a tracker nothing has been dispatched for it.
        && session.trackers.current(run).is_empty()
}

fn render_input(
    app: &Application,
    revision: &str,
    hash: &str,
    custom: Option<Arc<Value>>,
    not_inherited: Arc<vela_api::KeyPatterns>,
) -> RenderInput {
    let components =
        app.spec.components.iter().filter_map(|c| serde_json::to_value(c).ok()).collect();
    RenderInput {
        app: Arc::new(vela_render::App {
            name: app.metadata.name.clone().unwrap_or_default(),
            namespace: app.metadata.namespace.clone().unwrap_or_default(),
            revision: revision.to_owned(),
            labels: app.metadata.labels.clone().unwrap_or_default(),
            annotations: app.metadata.annotations.clone().unwrap_or_default(),
            components,
            not_inherited,
        }),
        revision_hash: hash.to_owned(),
        custom,
    }
}
