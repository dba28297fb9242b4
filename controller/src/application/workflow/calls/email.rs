//! `vela/email`: mails. Each is sent once; a server that may have it is not asked again.

use futures::FutureExt;
use jiff::Timestamp;
use serde_json::Value;
use vela_workflow::Reply;

use crate::egress::calls::{Call, Lost, Slot};
use crate::egress::http::HttpResponse;
use crate::egress::smtp::{Failure, Mail, reach, send};
use crate::messages;

use super::http::Outgoing;
use super::{CallOutcome, Calling, Pending, names, text};

impl Calling<'_, '_, '_> {
    pub(super) async fn mail(&mut self, call: &Pending) -> CallOutcome {
        let from = call.params.get("from").cloned().unwrap_or_default();
        let content = call.params.get("content").cloned().unwrap_or_default();
        let port = from.get("port").and_then(Value::as_u64).and_then(|p| u16::try_from(p).ok());
        let now = Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
        let address = text(&from, "address").to_owned();
        let domain = address.rsplit_once('@').map_or("vela", |(_, domain)| domain);
        let mail = Mail {
            host: text(&from, "host").to_owned(),
            port: port.unwrap_or(587),
            alias: text(&from, "alias").to_owned(),
            password: text(&from, "password").to_owned(),
            to: names(&call.params, "to"),
            subject: text(&content, "subject").to_owned(),
            body: text(&content, "body").to_owned(),
            date: jiff::fmt::rfc2822::to_string(&now).unwrap_or_default(),
            id: format!("{}.{}@{domain}", self.id, now.timestamp().as_millisecond()),
            from: address,
        };
        self.secrets.keep(&mail.password);
        let named = messages::mail_named(&mail.to.join(", "), &mail.host);
        let slot = self.slot(call);
        let ended = match self.session.ctx.calls.find(&slot) {
            Some(Call::InFlight) => return CallOutcome::Waits(named),
            Some(Call::Ended(ended)) => ended,
            None => return self.post(slot, mail, named).await,
        };
        self.settle(&call.path, &ended, |_| Value::Null);
        match ended {
            Ok(_) => Reply::Returns(Value::Null),
            Err(Lost::NotSent(error)) => Reply::Error(messages::mail_failed(&error)),
            Err(Lost::Unknown(error)) => Reply::Fail(messages::effect_lost(&named, &error)),
        }
        .into()
    }

    /// Starts to send a mail that was not started before.
    async fn post(&mut self, slot: Slot, mail: Mail, named: String) -> CallOutcome {
        if let Some(answer) = self.before_call(&slot, &named, true).await {
            return answer;
        }
        let egress = self.session.ctx.workflow.egress.clone();
        let host = mail.host.clone();
        let work = async move {
            let ready =
                reach(&mail, &egress).await.map_err(|error| Lost::NotSent(error.to_string()))?;
            match send(ready).await {
                Ok(()) => Ok(HttpResponse::default()),
                Err(Failure::NotSent(error)) => Err(Lost::NotSent(error)),
                Err(Failure::Unknown(error)) => Err(Lost::Unknown(error)),
            }
        };
        self.call_out(Outgoing { slot, host, named, once: true, work: work.boxed() }).await
    }
}
