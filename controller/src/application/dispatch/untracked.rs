//! Objects that steps of a WorkflowRun apply: written as they are, recorded nowhere. Nobody keeps them as they are and nobody collects
//! them.

use serde_json::Value;
use vela_apply::Owner;
use vela_apply::object::{kind, name};
use vela_apply::plan::{self, Options, Write};
use vela_apply::policy::Stage;
use vela_cluster::Target;

use crate::application::dispatch::apply::MAX_REPLANS;
use crate::application::dispatch::error::{Denial, DispatchError, Verb, WriteError};
use crate::application::session::Session;

impl Session<'_> {
    /// Makes live objects equal to their manifests, one after the other. One that an Application owns is refused: the Application
    /// would put it back.
    ///
    /// # Errors
    /// Objects are denied, or could not be written.
    pub(in crate::application) async fn apply_untracked(
        &self,
        manifests: &mut [Value],
        cluster: &str,
    ) -> Result<(), DispatchError> {
        self.refuse_replaced(cluster)?;
        // All are permitted before the first one is written.
        for manifest in manifests.iter_mut() {
            if name(manifest).is_empty() {
                return Err(Denial::NoName { kind: kind(manifest).to_owned() }.into());
            }
            self.permit(manifest, cluster).await?;
        }
        for manifest in &*manifests {
            let written = self.write_untracked(manifest, cluster).await;
            written.map_err(|error| DispatchError::Write(vec![error]))?;
        }
        Ok(())
    }

    async fn write_untracked(&self, manifest: &Value, cluster: &str) -> Result<(), WriteError> {
        let at = self.reach_to(cluster, "patch").await.map_err(WriteError::Unreachable)?;
        let io = at.requests();
        let target = Target::of(manifest);
        // Nothing that anybody owns has a label without a name.
        let nobody = Owner { namespace: self.owner.namespace.clone(), name: String::new() };
        let options =
            Options { owner: &nobody, adopt_unowned: true, ..self.options(Stage::Update) };
        let mut left = MAX_REPLANS;
        loop {
            left = left.saturating_sub(1);
            let live = self.fetch_live(&target, cluster).await?;
            let write = plan::plan(manifest, live.as_deref(), &options);
            let (verb, written) = match write.map_err(WriteError::Plan)? {
                // Without policies nothing is created again.
                Write::Skip | Write::Recreate { .. } => return Ok(()),
                Write::Create(object) => (Verb::Create, io.create(&object, false).await),
                Write::Replace(object) => (Verb::Update, io.replace(&object, false).await),
                Write::Patch { kind, body } => {
                    (Verb::Patch, io.patch(&target, (kind, &body), false).await)
                }
            };
            match written {
                Ok(_) => return Ok(()),
                // Somebody else was quicker: decided again on what is there.
                Err(error)
                    if left > 0
                        && (error.is_already_exists()
                            || error.is_conflict()
                            || (error.is_not_found() && verb != Verb::Create)) => {}
                Err(error) => return Err(WriteError::Request(verb, error)),
            }
        }
    }
}
