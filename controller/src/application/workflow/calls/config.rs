//! `vela/config`: Secrets made from templates, with the identity of the Application.

use serde_json::{Value, json};
use vela_api::names::label;
use vela_apply::object::str_at;
use vela_apply::plan::PatchKind;
use vela_cluster::Target;
use vela_workflow::config;

use crate::application::workflow::error::StepError;
use crate::evaluation::EvaluationScope;
use crate::messages;

use super::super::selector::selector;
use super::{Calling, kube, text};

impl Calling<'_, '_, '_> {
    pub(super) async fn create_config(&mut self, params: &Value) -> Result<Value, StepError> {
        let (namespace, name) = (text(params, "namespace"), text(params, "name"));
        let properties = params.get("config").cloned().unwrap_or_else(|| json!({}));
        let session = &*self.session;
        let wanted = text(params, "template");
        // `namespace/name`, or the name of a template of the installation.
        let (within, template_name) = match wanted.split_once('/') {
            Some((within, name)) => (within.to_owned(), name.to_owned()),
            None => (session.ctx.settings.system_namespace.clone(), wanted.to_owned()),
        };
        let found = if wanted.is_empty() {
            None
        } else {
            let name = format!("config-template-{template_name}");
            let target =
                Target { api_version: "v1", kind: "ConfigMap", namespace: &within, name: &name };
            let settings = &session.ctx.settings;
            let found = if within == settings.system_namespace {
                // It belongs to the installation, not to whoever uses it.
                session.ctx.io.get(&target, &vela_cluster::Identity::default()).await
            } else if !settings.allow_cross_namespace && within != session.owner.namespace {
                let at = format!("{within}/{name}");
                return Err(messages::forbidden_namespace("ConfigMap", &at).into());
            } else {
                session.io().get(&target).await
            };
            Some(found.map_err(|error| {
                messages::config_template_missing(&template_name, &error.to_string())
            })?)
        };
        let of = (namespace.to_owned(), name.to_owned());
        // The template is CUE that somebody wrote: it is evaluated on the pool.
        let job = move |scope: &EvaluationScope| {
            let template = found.as_ref().map(|map| config::Template {
                name: &template_name,
                namespace: &within,
                text: str_at(map, &["data", "template"]),
                scope: str_at(map, &["metadata", "labels", "config.oam.dev/scope"]),
                sensitive: str_at(map, &["metadata", "annotations", "config.oam.dev/sensitive"])
                    == "true",
            });
            config::make((&of.0, &of.1), template, &properties, &scope.limits)
                .map_err(|error| error.to_string())
        };
        let made = session.ctx.cue.run(job).await??;
        let old = match session.io().get(&Target::of(&made.secret)).await {
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
            Ok(old) => {
                // Whoever may write Secrets must not take over one that is no config.
                config::may_replace(&old, &made.secret)?;
                Some(old)
            }
        };
        let mut all = made.objects;
        // The Secret first: its objects may refer to it.
        all.insert(0, made.secret);
        // one that somebody else made stays theirs; what a step makes goes with the Application
        match old.filter(|old| vela_apply::object::label(old, label::APP_NAME).is_none()) {
            Some(_) => self.change_config(&mut all).await?,
            None => self.own(&mut all, "").await?,
        }
        Ok(Value::Null)
    }

    /// Writes over a config that does not belong to an Application.
    async fn change_config(&self, objects: &mut [Value]) -> Result<(), StepError> {
        let session = &*self.session;
        let io = session.io();
        // All are permitted before the first one is written.
        for object in &mut *objects {
            session.permit(object, "").await?;
        }
        for object in &*objects {
            let body = (PatchKind::Merge, object);
            match io.patch(&Target::of(object), body, false).await {
                Err(error) if error.is_not_found() => {
                    io.create(object, false).await?;
                }
                other => {
                    other?;
                }
            }
        }
        Ok(())
    }

    async fn config_secret(&mut self, params: &Value) -> Result<Value, StepError> {
        let (namespace, name) = (text(params, "namespace"), text(params, "name"));
        let target = Target { api_version: "v1", kind: "Secret", namespace, name };
        let session = &*self.session;
        match session.io().get(&target).await {
            Ok(secret) => {
                // Its values must appear in no message from here on.
                self.keep_secret(&secret);
                Ok(secret)
            }
            Err(error) if error.is_not_found() => Err(messages::config_missing(name).into()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn read_config(&mut self, params: &Value) -> Result<Value, StepError> {
        let secret = self.config_secret(params).await?;
        let properties = config::read(&secret)?;
        Ok(json!({ "config": properties }))
    }

    pub(super) async fn list_config(&mut self, params: &Value) -> Result<Value, StepError> {
        let (namespace, template) = (text(params, "namespace"), text(params, "template"));
        if namespace.is_empty() || template.is_empty() {
            return Err(messages::CONFIG_LIST_INVALID.into());
        }
        // Labels name the template without its namespace.
        let template = template.rsplit_once('/').map_or(template, |(_, name)| name);
        let labels = json!({config::CATALOG.0: config::CATALOG.1, config::TYPE: template});
        let selector = selector(Some(&labels));
        let session = &*self.session;
        let all = session.io().list("v1", "Secret", namespace, &selector);
        let all = all.await?;
        let items = || all.get("items").and_then(Value::as_array).into_iter().flatten();
        items().for_each(|item| self.keep_secret(&kube::named(item, "Secret")));
        let items = items();
        Ok(json!({ "configs": items.map(config::item).collect::<Vec<_>>() }))
    }

    pub(super) async fn delete_config(&mut self, params: &Value) -> Result<Value, StepError> {
        let secret = self.config_secret(params).await?;
        // Only Secrets that are configs are deleted by this call.
        config::may_replace(&secret, &secret)?;
        // What the template made besides the Secret goes with it.
        for object in config::objects(&secret) {
            let object = json!({
                "apiVersion": text(&object, "apiVersion"), "kind": text(&object, "kind"),
                "metadata": {"namespace": text(&object, "namespace"), "name": text(&object, "name")},
            });
            self.session.delete(&object, "").await?;
        }
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"namespace": text(params, "namespace"), "name": text(params, "name")},
        });
        self.session.delete(&secret, "").await?;
        Ok(Value::Null)
    }
}
