//! From a review to a decision, without any input or output: asks the rules, collects what they
//! would like to know, and is asked again with the answers.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use crate::admit::Admit;
use crate::application;
use crate::config::Settings;
use crate::decision::Decision;
use crate::definition;
use crate::messages;
use crate::review::{self, Envelope, Request};
use crate::snapshot::Snapshot;
use crate::stamped_kind::StampedKind;
use crate::workflow_run;
use crate::world::{Fact, Facts, Need, World};
use vela_api::DefinitionKind;

/// Rounds of questions: a Workflow is read, then its step types, then their revisions.
pub(crate) const ROUNDS: usize = 6;

/// Compiled templates that are kept. The built-in ones with their status texts are about 150; one
/// takes tens of kilobytes.
const PROGRAMS: NonZeroUsize = match NonZeroUsize::new(500) {
    Some(size) => size,
    None => NonZeroUsize::MIN,
};

/// What they take together, about: the built-in ones need less than half of it, and the chart gives
/// the process 256 MiB.
const PROGRAM_BYTES: usize = 16 << 20;

/// The rules behind each path. Paths are those of upstream's server, and those of what it does not ask about.
const PATHS: [(&str, &dyn Admit); 16] = [
    ("/mutating-core-oam-dev-v1beta1-applications", &application::Mutate),
    ("/validating-core-oam-dev-v1beta1-applications", &application::Validate),
    ("/mutating-core-oam-dev-v1beta1-componentdefinitions", &StampedKind::Component),
    ("/mutating-core-oam-dev-v1beta1-traitdefinitions", &StampedKind::Trait),
    ("/mutating-core-oam-dev-v1beta1-policydefinitions", &StampedKind::Policy),
    ("/mutating-core-oam-dev-v1beta1-workflowstepdefinitions", &StampedKind::Step),
    ("/mutating-core-oam-dev-v1beta1-workloaddefinitions", &StampedKind::Workload),
    ("/mutating-core-oam-dev-v1beta1-applicationrevisions", &StampedKind::Revision),
    ("/mutating-core-oam-dev-v1alpha1-workflows", &StampedKind::Workflow),
    ("/mutating-core-oam-dev-v1alpha1-policies", &StampedKind::ExternalPolicy),
    ("/mutating-core-oam-dev-v1alpha1-workflowruns", &StampedKind::Run),
    ("/validating-core-oam-dev-v1alpha1-workflowruns", &workflow_run::Validate),
    (
        "/validating-core-oam-dev-v1beta1-componentdefinitions",
        &definition::Validate(DefinitionKind::Component),
    ),
    (
        "/validating-core-oam-dev-v1beta1-traitdefinitions",
        &definition::Validate(DefinitionKind::Trait),
    ),
    (
        "/validating-core-oam-dev-v1beta1-policydefinitions",
        &definition::Validate(DefinitionKind::Policy),
    ),
    (
        "/validating-core-oam-dev-v1beta1-workflowstepdefinitions",
        &definition::Validate(DefinitionKind::WorkflowStep),
    ),
];

/// A path that admits.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint {
    /// The path.
    pub path: &'static str,
    rules: &'static dyn Admit,
}

/// Every admission path.
pub fn endpoints() -> impl Iterator<Item = Endpoint> {
    PATHS.into_iter().map(|(path, rules)| Endpoint { path, rules })
}

/// What came of asking the rules once.
#[derive(Debug)]
pub enum Step {
    /// The decision.
    Done(Decision),
    /// Questions to answer first.
    Needs(BTreeSet<Need>),
}

/// The rules with their settings and the cache of compiled templates.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    renderer: vela_render::Renderer,
}

impl Engine {
    /// An engine with an empty cache.
    pub fn new(settings: Settings, rewrite_legacy_syntax: bool) -> Self {
        let bytes = settings.evaluation_bytes;
        let renderer = vela_render::Renderer::new(vela_render::Options {
            limits: vela_render::Limits { bytes, ..vela_render::Limits::default() },
            cache: PROGRAMS,
            cache_bytes: PROGRAM_BYTES,
            rewrite_legacy_syntax,
        });
        Self { settings, renderer }
    }

    /// Asks once. A question that the API server could not answer ends the review, and so does
    /// `is_spent`: nobody waits for the decision any more.
    pub fn step(
        &self,
        endpoint: Endpoint,
        request: &Request,
        snapshot: &Snapshot,
        facts: &Facts,
        is_spent: &dyn Fn() -> bool,
    ) -> Step {
        let failed = facts.iter().find_map(|(need, fact)| match (need, fact) {
            (Need::Object { .. } | Need::Revisions { .. }, Fact::Failed(error)) => Some(error),
            _ => None,
        });
        if let Some(error) = failed {
            return Step::Done(Decision::errored(500, messages::lookup_failed(error)));
        }
        let world = World::new(&self.settings, &self.renderer, snapshot, facts, is_spent);
        let decision = endpoint.rules.admit(request, &world);
        // rules that were cut short have not seen everything
        if is_spent() {
            return Step::Done(Decision {
                rule: "deadline",
                ..Decision::errored(504, messages::DEADLINE)
            });
        }
        let needs = world.into_lookup();
        if needs.is_empty() { Step::Done(decision) } else { Step::Needs(needs) }
    }

    /// A whole review with a function that knows all facts. For tools and tests; the server does
    /// the same with a pool of threads and an API server between the steps.
    pub fn review(
        &self,
        endpoint: Endpoint,
        content_type: Option<&str>,
        body: &[u8],
        snapshot: &Snapshot,
        mut know: impl FnMut(&Need) -> Fact,
    ) -> (Option<Envelope>, Decision) {
        let (envelope, request) = match review::decode(content_type, body) {
            Ok(review) => review,
            Err(decision) => return (None, *decision),
        };
        let mut facts = Facts::new();
        for _ in 0..ROUNDS {
            match self.step(endpoint, &request, snapshot, &facts, &|| false) {
                Step::Done(decision) => return (Some(envelope), decision),
                Step::Needs(needs) => {
                    for need in needs {
                        let fact = know(&need);
                        facts.insert(need, fact);
                    }
                }
            }
        }
        (Some(envelope), Decision::errored(500, messages::TOO_MANY_LOOKUPS))
    }
}
