//! `vela/email`: mails. Each is sent once; a server that may have it is not asked again.

use futures::FutureExt;
use jiff::Timestamp;
use serde_json::Value;
use vela_workflow::Reply;

use crate::messages;
use crate::outside::beside::{Call, Lost, Slot};
use crate::outside::http::Told;
use crate::outside::smtp::{Failure, Mail, reach, send};

use super::{Answer, Calling, Pending, names, text};

impl Calling<'_, '_, '_> {
    pub(super) async fn mail(&mut self, call: &Pending) -> Answer {
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
        let ended = match self.session.ctx.beside.find(&slot) {
            Some(Call::UnderWay) => return Answer::Waits(named),
            Some(Call::Ended(ended)) => ended,
            None => return self.post(call, slot, mail, named).await,
        };
        self.settle(&call.path, &ended, |_| Value::Null);
        match ended {
            Ok(_) => Reply::Returns(Value::Null),
            Err(Lost::NotSent(error)) => Reply::Error(messages::mail_failed(&error)),
            Err(Lost::Unknown(error)) => Reply::Fail(messages::effect_lost(&named, &error)),
        }
        .into()
    }

    /// Sends a mail beside, after its intent is noted.
    async fn post(&mut self, call: &Pending, slot: Slot, mail: Mail, named: String) -> Answer {
        match self.effect(&call.path, &named).await {
            Ok(Some(done)) => return done,
            Ok(None) => {}
            Err(error) => return Reply::Error(error).into(),
        }
        let ctx = self.session.ctx;
        if !ctx.beside.has_room(&slot.app.namespace) {
            return Answer::NoRoom;
        }
        if let Err(error) = self.intend(&call.path).await {
            return Reply::Error(error).into();
        }
        let egress = ctx.workflow.egress.clone();
        let work = async move {
            let ready = reach(&mail, &egress).await.map_err(Lost::NotSent)?;
            match send(ready).await {
                Ok(()) => Ok(Told::default()),
                Err(Failure::NotSent(error)) => Err(Lost::NotSent(error)),
                Err(Failure::Unknown(error)) => Err(Lost::Unknown(error)),
            }
        };
        ctx.beside.begin(&slot, true, work.boxed());
        Answer::Waits(named)
    }
}
