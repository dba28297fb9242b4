//! Calls to servers outside of the cluster, as a step makes them: a call begins once and goes on in the background while the
//! step waits for the answer. A call that must not be repeated is noted before it is sent, and how it ended is noted too.

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use vela_workflow::{Reply, effects};

use crate::egress::calls::{Call, Ended, Lost, Slot};
use crate::egress::http::HttpResponse;
use crate::messages;

use super::{CallOutcome, Calling, Pending};

/// A call to a server.
pub(super) struct Outgoing {
    /// Its path in the step's template.
    path: String,
    /// The server: an address or a name.
    host: String,
    /// The call in messages.
    named: String,
    /// Must not be repeated.
    once: bool,
}

/// How far a call is.
pub(super) enum Progress {
    /// The step is answered without it: it is in flight, may not begin, or is known to have ended.
    Answered(CallOutcome),
    /// It may begin now.
    MayBegin,
    /// It ended.
    Ended(Ended),
}

impl Outgoing {
    /// A call that is asked for at most once, whatever becomes of it.
    pub(super) fn once(call: &Pending, host: &str, named: String) -> Self {
        Self { once: true, ..Self::repeatable(call, host, named) }
    }

    /// A call that changes nothing at the server.
    pub(super) fn repeatable(call: &Pending, host: &str, named: String) -> Self {
        let (path, host) = (call.path.clone(), host.to_owned());
        Self { path, host, named, once: false }
    }
}

impl Calling<'_, '_, '_> {
    /// How far a call is. What an earlier attempt at it came to counts first; an address that the egress rule closes is refused
    /// before anything begins. A name is checked when it is resolved.
    pub(super) async fn progress(&mut self, call: &Outgoing) -> Progress {
        let ctx = self.session.ctx;
        // An attempt that is in flight or has ended counts before everything else.
        match ctx.calls.find(&self.slot(call)) {
            Some(Call::InFlight) => {
                return Progress::Answered(CallOutcome::Waits(call.named.clone()));
            }
            Some(Call::Ended(ended)) => return Progress::Ended(ended),
            None => {}
        }
        // Another process may have sent it: the stored notes know.
        if call.once
            && let Some(known) = self.effect(call).await
        {
            return Progress::Answered(known);
        }
        if !ctx.workflow.egress.allows_host(&call.host) {
            let refusal = messages::egress_denied(&call.host);
            return Progress::Answered(Reply::Error(call.failed(&refusal)).into());
        }
        // Bounded for each namespace, so that one tenant cannot take all slots.
        if !ctx.calls.has_room(&self.session.owner.namespace) {
            return Progress::Answered(CallOutcome::NoRoom);
        }
        Progress::MayBegin
    }

    /// Begins a call that [`Progress::MayBegin`]. The intent of one that must not be repeated is stored first.
    pub(super) async fn begin(
        &mut self,
        call: Outgoing,
        work: BoxFuture<'static, Ended>,
    ) -> CallOutcome {
        // Stored before it is sent: after a crash nobody would know otherwise.
        if call.once
            && let Some(failed) = self.intend(&call).await
        {
            return failed;
        }
        self.session.ctx.calls.begin(&self.slot(&call), call.once, work);
        CallOutcome::Waits(call.named)
    }

    /// What the template gets of a call that ended: `value` of the answer, an error of a call that may be tried again, or the end
    /// of the step if nobody knows whether the effect happened.
    pub(super) fn ended(
        &mut self,
        call: &Outgoing,
        ended: Ended,
        value: impl FnOnce(HttpResponse) -> Value,
    ) -> Reply {
        let ended = ended.map(value);
        if call.once {
            let notes = &mut self.store.saved_mut().notes;
            match &ended {
                Ok(value) => effects::end(notes, self.id, &call.path, value),
                Err(Lost::NotSent(_)) => effects::withdraw(notes, self.id, &call.path),
                // The intent stays: the next attempt must not send it again.
                Err(Lost::Unknown(_)) => {}
            }
        }
        match ended {
            Ok(value) => Reply::Returns(value),
            Err(Lost::Unknown(error)) if call.once => {
                Reply::Fail(messages::effect_lost(&call.named, &error))
            }
            Err(lost) => Reply::Error(call.failed(lost.text())),
        }
    }

    fn slot(&self, call: &Outgoing) -> Slot {
        let (step, path) = (self.id.to_owned(), call.path.clone());
        Slot { app: self.session.key(), step, path }
    }

    /// What is known of an effect: how it ended, or that nobody knows. `None`: it was not started.
    async fn effect(&mut self, call: &Outgoing) -> Option<CallOutcome> {
        if let Err(error) = self.store.load().await {
            return Some(Reply::Error(error.to_string()).into());
        }
        let notes = &self.store.saved().notes;
        if let Some(outcome) = effects::finished(notes, self.id) {
            return Some(CallOutcome::Finished(outcome));
        }
        match effects::known(notes, self.id, &call.path) {
            effects::Known::Nothing => None,
            effects::Known::Done(value) => Some(Reply::Returns(value).into()),
            effects::Known::Started(at) => {
                Some(Reply::Fail(effects::unknown(&call.named, &at)).into())
            }
        }
    }

    /// Notes an effect before it happens; an answer for the step if it cannot be stored.
    async fn intend(&mut self, call: &Outgoing) -> Option<CallOutcome> {
        let now = Timestamp::now();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        effects::begin(&mut self.store.saved_mut().notes, self.id, &call.path, &now);
        let error = self.store.commit(true).await.err()?;
        // Not stored, so it does not begin, and no note may say that it did.
        effects::withdraw(&mut self.store.saved_mut().notes, self.id, &call.path);
        Some(Reply::Error(messages::intent_not_stored(&error.to_string())).into())
    }
}

impl Outgoing {
    fn failed(&self, reason: &str) -> String {
        format!("{}: {reason}", self.named)
    }
}
