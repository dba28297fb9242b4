//! Stamps: the identity annotations of an object, set from its writer.

use vela_api::names::annotation;
use vela_seal::{Evidence, Stamp, Subject};

use crate::application::auth::matches;
use crate::config::Settings;
use crate::field::{Field, Problem, Reason, Rule};
use crate::messages;
use crate::review::User;
use crate::world::World;

/// Groups of an administrator that are asked about one by one. An administrator by more of them gets a warning.
const MAX_GROUPS_CHECKED: usize = 32;

/// What users write to say what they want of a stamp: to be the author, or, as an administrator, that the author who is named
/// is right.
pub(crate) const RENEW: &str = "renew";
pub(crate) const CONFIRM: &str = "confirm";

/// An annotation and its value; `None` for one that must not be there.
pub(crate) type Annotations = [(&'static str, Option<String>); 4];

/// Who asks, as the author of what he writes, and the warnings for him.
pub(crate) fn author(user: &User, world: &World<'_>) -> (Stamp, Option<String>) {
    let settings = world.settings;
    let mut groups: Vec<String> =
        user.groups.iter().filter(|group| is_passed(group, settings)).cloned().collect();
    groups.dedup();
    let mut stamp = Stamp { user: String::new(), groups, administrator: None };
    if settings.with_user {
        stamp.user.clone_from(&user.username);
    }
    let mut warning = None;
    if !settings.admin_group.is_empty() && is_administrator(user, world) {
        stamp.administrator = evidence(user, world);
        match stamp.administrator {
            Some(_) => stamp.groups.push(settings.admin_group.clone()),
            None => warning = Some(messages::NO_EVIDENCE.to_owned()),
        }
    }
    (stamp, warning)
}

/// The stamp that is there already, as an administrator confirms it: what nobody could be stamped with is left out.
pub(crate) fn confirmed(mut named: Stamp, world: &World<'_>) -> Stamp {
    let settings = world.settings;
    let claims = named.groups.contains(&settings.admin_group);
    named.groups.retain(|group| is_passed(group, settings));
    named.administrator = None;
    let user = || User { username: named.user.clone(), groups: Vec::new() };
    if claims && !named.user.is_empty() && is_administrator(&user(), world) {
        named.administrator = Some(Evidence::User(named.user.clone()));
        named.groups.push(settings.admin_group.clone());
    }
    named
}

/// The annotations of an object that has this author.
pub(crate) fn annotations(
    settings: &Settings,
    stamp: &Stamp,
    object: &Subject<'_>,
) -> Result<Annotations, Problem> {
    let keys = settings.keys.get().ok_or_else(|| {
        let field = Field::new("metadata.annotations").key(annotation::STAMP);
        Problem::new(Rule::Identity, Reason::Forbidden, field, messages::NO_STAMP_KEY)
    })?;
    Ok(stamp.annotations(&keys, object))
}

/// Groups of Kubernetes itself are never passed on, a comma would make two of one, and only the webhook decides who is an
/// administrator.
fn is_passed(group: &str, settings: &Settings) -> bool {
    !group.is_empty()
        && !group.starts_with("system:")
        && !group.contains(',')
        && group != settings.admin_group
        && matches(&settings.group_pattern, group)
}

pub(crate) fn is_administrator(user: &User, world: &World<'_>) -> bool {
    // The API server authorizes this group for everything without further checks.
    user.groups.iter().any(|group| group == "system:masters")
        || world.is_administrator(&user.username, &user.groups)
}

/// By which subject an administrator is one. The group in which Applications of administrators act comes last: it says only that
/// one of them made this, and that is so for ever.
fn evidence(user: &User, world: &World<'_>) -> Option<Evidence> {
    let group = |name: &String| Evidence::Group(name.clone());
    if let Some(masters) = user.groups.iter().find(|group| *group == "system:masters") {
        return Some(group(masters));
    }
    if world.is_administrator(&user.username, &[]) {
        return Some(Evidence::User(user.username.clone()));
    }
    if world.is_incomplete() {
        return None;
    }
    let ours = &world.settings.admin_group;
    let (last, first): (Vec<_>, Vec<_>) = user.groups.iter().partition(|group| *group == ours);
    // All are asked about at once: the answers are fetched together.
    let asked = first.into_iter().chain(last).take(MAX_GROUPS_CHECKED);
    let are: Vec<_> = asked
        .filter(|group| world.is_administrator("", std::slice::from_ref(*group)))
        .map(group)
        .collect();
    are.into_iter().next()
}
