//! Plans that the controller itself makes: of Applications that are paused and ask for it. They act as the author, like the run.

use std::sync::Arc;

use serde_json::json;
use vela_api::Application;

use crate::application::context::{PlannedRun, Planner};
use crate::charts::download::Rules;
use crate::context::Context;

use super::one::{Verdict, plan_paused};
use super::report;
use super::setup::present;
use super::stage::Means;

/// Plans at a time, whatever asks: each reads and tries out a whole Application.
const MAX_PLANS: usize = 2;

/// A planner over what the controller has.
pub(crate) fn planner(shared: &Arc<Context>, rules: &Rules) -> Planner {
    let means = Means {
        client: shared.io.client().clone(),
        settings: shared.settings.clone(),
        rules: rules.clone(),
        cue: shared.cue.clone(),
        definitions: Arc::clone(&shared.definitions),
        keys: shared.keys.clone(),
        clusters: Arc::clone(&shared.clusters),
        _ends_on_drop: None,
    };
    let room = Arc::new(tokio::sync::Semaphore::new(MAX_PLANS));
    Arc::new(move |app: Application| {
        let (means, room) = (means.clone(), Arc::clone(&room));
        Box::pin(async move {
            let _permit = room.acquire().await;
            planned(&means, &app).await
        })
    })
}

async fn planned(means: &Means, app: &Application) -> Result<PlannedRun, vela_cluster::ApiError> {
    let read = |error: serde_json::Error| vela_cluster::ApiError::Transport(error.to_string());
    let object = serde_json::to_value(app).map_err(read)?;
    let present = present(&means.client, &object).await?;
    let plan = match plan_paused(means, &present).await {
        Ok(plan) => plan,
        Err(super::one::PlanError::Api(error)) => return Err(error),
        Err(error) => return Err(vela_cluster::ApiError::Transport(error.to_string())),
    };
    Ok(PlannedRun {
        is_possible: plan.verdict() < Verdict::Unknown,
        summary: match &plan.problem {
            Some(problem) => format!("{}: {problem}", report::summary(&plan)),
            None => report::summary(&plan),
        },
        text: report::text(&plan),
        json: json!(plan).to_string(),
    })
}
