//! TraitDefinitions: checks that they have an effect.

use super::cue;
use super::subject::Subject;
use crate::messages;

pub(crate) fn check(subject: &Subject<'_>, problems: &mut Vec<String>, warnings: &mut Vec<String>) {
    let has_reference = !subject.text("/definitionRef/name").is_empty();
    cue::check(subject, problems, warnings);
    let has_template = subject.template().is_some_and(|template| !template.is_empty())
        || !subject.text("/extension/template").is_empty();
    if !has_reference && !has_template {
        problems.push(messages::TRAIT_WITHOUT_EFFECT.to_owned());
    }
}
