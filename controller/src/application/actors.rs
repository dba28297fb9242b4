//! The identities of an Application's requests: its author, if each of its co-authors may make them too.
//!
//! Who writes a definition, a Workflow, a Policy or a revision that an Application uses decides what is deployed, as the author of
//! the Application does. A request is tried as each co-author first: a write in a dry run, a read as it is. What one of them may
//! not do is not done. Who the authors are is decided elsewhere; without co-authors nothing is asked twice.

use serde_json::Value;
use vela_apply::object::{kind, name};
use vela_apply::plan::PatchKind;
use vela_cluster::{ApiError, Identity, ObjectClient, RawResponse, Removal, Target};

use crate::messages;

/// Who wrote something that an Application uses, and is not its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoAuthor {
    /// As whom requests are tried.
    pub identity: Identity,
    /// What they wrote, as text: kind, namespace and name.
    pub object: String,
    /// Whether they are known; else it is the default user that answers for the object.
    pub known: bool,
}

/// Everybody who decides what an Application deploys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actors {
    /// Who acts.
    pub author: Identity,
    /// Who must be allowed to do the same.
    pub co_authors: Vec<CoAuthor>,
}

impl From<Identity> for Actors {
    fn from(author: Identity) -> Self {
        Self { author, co_authors: Vec::new() }
    }
}

impl Actors {
    /// Whether anything is done as somebody else than the controller itself.
    #[must_use]
    pub fn are_others(&self) -> bool {
        self.author.is_other() || !self.co_authors.is_empty()
    }

    /// Adds who wrote an object; the author and whoever is known already add nothing.
    pub fn add(&mut self, co_author: CoAuthor) {
        let is_same = |other: &CoAuthor| other.identity == co_author.identity;
        if co_author.identity != self.author && !self.co_authors.iter().any(is_same) {
            self.co_authors.push(co_author);
        }
    }
}

/// A connection over which the authors of an Application make requests.
#[derive(Debug, Clone, Copy)]
pub struct Requests<'a> {
    pub(super) io: &'a ObjectClient,
    pub(super) actors: &'a Actors,
}

/// Makes a request as each co-author, then as the author; the answer to the author counts. What is sent for a co-author may be
/// another request than what is sent for the author: its trial.
macro_rules! as_all {
    ($self:ident, $what:expr, |$identity:ident| $trial:expr, $request:expr) => {{
        // The first refusal ends it: nothing is sent as the author then.
        for co_author in &$self.actors.co_authors {
            let $identity = &co_author.identity;
            $trial.await.map_err(|error| refused(error, co_author, $what))?;
        }
        let $identity = &$self.actors.author;
        $request.await
    }};
}

impl Requests<'_> {
    /// GET.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn get(self, target: &Target<'_>) -> Result<Value, ApiError> {
        let get = |identity| self.io.get(target, identity);
        as_all!(self, ("get", target.kind, target.name), |identity| get(identity), get(identity))
    }

    /// GET of a collection.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn list(
        self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        selector: &str,
    ) -> Result<Value, ApiError> {
        let list = |identity| self.io.list(api_version, kind, namespace, selector, identity);
        as_all!(self, ("list", kind, namespace), |identity| list(identity), list(identity))
    }

    /// GET of a subresource that is text.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn text(
        self,
        target: &Target<'_>,
        subresource: &str,
        query: &[(String, String)],
    ) -> Result<String, ApiError> {
        let text = |identity| self.io.text(target, subresource, query, identity);
        as_all!(self, ("get", target.kind, target.name), |identity| text(identity), text(identity))
    }

    /// POST.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn create(self, object: &Value, dry_run: bool) -> Result<RawResponse, ApiError> {
        let create = |dry_run, identity| self.io.create(object, dry_run, identity);
        let what = ("create", kind(object), name(object));
        as_all!(self, what, |identity| create(true, identity), create(dry_run, identity))
    }

    /// PUT of an object.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn replace(self, object: &Value, dry_run: bool) -> Result<RawResponse, ApiError> {
        let replace = |dry_run, identity| self.io.replace(object, "", dry_run, identity);
        let what = ("update", kind(object), name(object));
        as_all!(self, what, |identity| replace(true, identity), replace(dry_run, identity))
    }

    /// PATCH of an object.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn patch(
        self,
        target: &Target<'_>,
        body: (PatchKind, &Value),
        dry_run: bool,
    ) -> Result<RawResponse, ApiError> {
        let patch = |dry_run, identity| self.io.patch(target, "", body, dry_run, identity);
        let what = ("patch", target.kind, target.name);
        as_all!(self, what, |identity| patch(true, identity), patch(dry_run, identity))
    }

    /// DELETE; `uid` guards against deleting a newer object of the same name.
    ///
    /// # Errors
    /// The API server's answer; an object that is gone is no error.
    pub async fn delete(
        self,
        target: &Target<'_>,
        uid: &str,
        propagation: Option<&str>,
    ) -> Result<Removal, ApiError> {
        self.delete_as_seen(target, (uid, ""), propagation).await
    }

    /// DELETE of an object of this uid, and if a version is given, only of that version.
    ///
    /// # Errors
    /// The API server's answer; an object that is gone is no error.
    pub async fn delete_as_seen(
        self,
        target: &Target<'_>,
        seen: (&str, &str),
        propagation: Option<&str>,
    ) -> Result<Removal, ApiError> {
        as_all!(
            self,
            ("delete", target.kind, target.name),
            |identity| self.io.try_delete(target, identity),
            self.io.delete_as_seen(target, seen, propagation, identity)
        )
    }

    /// DELETE of what a selector matches in a namespace.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn delete_all(
        self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        selector: &str,
    ) -> Result<(), ApiError> {
        let delete = |dry_run, identity| {
            self.io.delete_all(api_version, kind, namespace, selector, dry_run, identity)
        };
        let what = ("delete", kind, namespace);
        as_all!(self, what, |identity| delete(true, identity), delete(false, identity))
    }
}

/// What is reported if a co-author may not do something. Any other answer is the one that the author would get.
fn refused(
    error: ApiError,
    co_author: &CoAuthor,
    (verb, kind, name): (&str, &str, &str),
) -> ApiError {
    match error {
        // Only a missing right is a matter of the co-author: a conflict or a missing kind concerns
        // the author as well.
        ApiError::Api { code: 403, reason, message, retry_after } => {
            let message = messages::co_author_refused(
                (&co_author.identity.user, co_author.known),
                &co_author.object,
                &format!("{verb} {kind} {name}"),
                &message,
            );
            ApiError::Api { code: 403, reason, message, retry_after }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Identity {
        Identity { user: name.to_owned(), groups: Vec::new() }
    }

    fn wrote(name: &str, object: &str) -> CoAuthor {
        CoAuthor { identity: user(name), object: object.to_owned(), known: true }
    }

    #[test]
    fn the_author_and_who_is_known_already_add_nothing() {
        let mut actors = Actors::from(user("admin"));
        for one in [wrote("admin", "a"), wrote("tenant", "b"), wrote("tenant", "c")] {
            actors.add(one);
        }
        assert_eq!(actors.co_authors, [wrote("tenant", "b")]);
        // The same name with other rights is somebody else.
        let group = Identity { groups: vec!["g".to_owned()], ..user("tenant") };
        actors.add(CoAuthor { identity: group, ..wrote("tenant", "d") });
        assert_eq!(actors.co_authors.len(), 2);
    }

    #[test]
    fn only_what_is_forbidden_is_told_of_the_co_author() {
        let api = |code| ApiError::Api {
            code,
            reason: "Forbidden".to_owned(),
            message: "no".to_owned(),
            retry_after: None,
        };
        let answered = |code, known| {
            let who = CoAuthor { known, ..wrote("tenant", "TraitDefinition team/scaler") };
            refused(api(code), &who, ("create", "ClusterRoleBinding", "x"))
        };
        let text = answered(403, true).to_string();
        for part in ["tenant", "TraitDefinition team/scaler", "create ClusterRoleBinding x", "no"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("again"), "{text}");
        assert!(answered(403, false).to_string().contains("apply it again"));
        assert_eq!(answered(409, true).to_string(), "no");
        assert_eq!(answered(403, true).code(), Some(403));
    }
}
