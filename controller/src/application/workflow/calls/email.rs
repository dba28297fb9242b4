//! `vela/email`: mails. Each is sent once; a server that may have it is not asked again.

use jiff::Timestamp;
use serde_json::Value;
use vela_workflow::{Reply, effects};

use crate::messages;
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
        match self.effect(&call.path, &named).await {
            Ok(Some(done)) => return done,
            Ok(None) => {}
            Err(error) => return Reply::Error(error).into(),
        }
        let egress = self.session.ctx.workflow.egress.clone();
        let ready = match reach(&mail, &egress).await {
            Ok(ready) => ready,
            Err(error) => return Reply::Error(messages::mail_failed(&error)).into(),
        };
        if let Err(error) = self.intend(&call.path).await {
            return Reply::Error(error).into();
        }
        match send(ready).await {
            Ok(()) => {
                let notes = &mut self.store.saved_mut().notes;
                effects::end(notes, self.id, &call.path, &Value::Null);
                Reply::Returns(Value::Null)
            }
            Err(Failure::NotSent(error)) => {
                effects::withdraw(&mut self.store.saved_mut().notes, self.id, &call.path);
                Reply::Error(messages::mail_failed(&error))
            }
            Err(Failure::Unknown(error)) => Reply::Fail(messages::effect_lost(&named, &error)),
        }
        .into()
    }
}
