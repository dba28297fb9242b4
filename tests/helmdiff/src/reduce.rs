//! The smallest case with the same sort of difference.

use crate::case::Case;

/// Cases tried for one reduction.
const MAX_TRIES: usize = 1500;

/// Makes a case smaller as long as it stays `interesting`.
pub(crate) fn reduce(case: &Case, interesting: &mut dyn FnMut(&Case) -> bool) -> Case {
    let mut best = case.clone();
    let mut tries = 0;
    let mut attempt = |best: &mut Case, candidate: Case| {
        tries += 1;
        let better = tries <= MAX_TRIES
            && candidate.size() < best.size()
            && sound(best, &candidate)
            && interesting(&candidate);
        if better {
            *best = candidate;
        }
        better
    };
    loop {
        let before = best.size();
        let names: Vec<String> =
            best.files.keys().filter(|name| *name != "Chart.yaml").cloned().collect();
        for name in &names {
            let mut candidate = best.clone();
            candidate.files.remove(name);
            attempt(&mut best, candidate);
        }
        for name in best.files.keys().cloned().collect::<Vec<_>>() {
            let with = |case: &Case, text: String| {
                let mut case = case.clone();
                case.files.insert(name.clone(), text);
                case
            };
            let text = |case: &Case| case.files.get(&name).cloned().unwrap_or_default();
            shrink(&mut best, &mut attempt, text, with);
        }
        shrink(
            &mut best,
            &mut attempt,
            |case| case.values.clone(),
            |case, values| Case { values, ..case.clone() },
        );
        if best.size() == before {
            return best;
        }
    }
}

/// Whether values and Chart.yaml that were JSON still are: else a smaller case shows another mistake.
fn sound(before: &Case, after: &Case) -> bool {
    let is_json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
    let kept = |before: &str, after: &str| after.is_empty() || !is_json(before) || is_json(after);
    kept(&before.values, &after.values)
        && before.files.iter().all(|(name, text)| {
            let is_data = !name.contains("templates/");
            !is_data || after.files.get(name).is_none_or(|after| kept(text, after))
        })
}

/// Leaves out ever smaller runs of the tokens of one text.
fn shrink(
    best: &mut Case,
    attempt: &mut impl FnMut(&mut Case, Case) -> bool,
    text: impl Fn(&Case) -> String,
    with: impl Fn(&Case, String) -> Case,
) {
    let mut run = tokens(&text(best)).len().next_power_of_two();
    while run > 0 {
        let mut at = 0;
        loop {
            let current = text(best);
            let parts = tokens(&current);
            if at >= parts.len() {
                break;
            }
            let left: String = parts
                .iter()
                .enumerate()
                .filter(|(i, _)| *i < at || *i >= at + run)
                .map(|(_, part)| *part)
                .collect();
            let candidate = with(best, left);
            if !attempt(best, candidate) {
                at += run;
            }
        }
        run /= 2;
    }
    // A shorter word in the position of a longer one.
    let parts: Vec<String> = tokens(&text(best)).into_iter().map(str::to_owned).collect();
    for at in 0..parts.len() {
        for short in ["0", "1", ".", "\"\"", "a", "nil"] {
            let current = text(best);
            let now = tokens(&current);
            if now.get(at).is_none_or(|part| part.len() <= short.len()) {
                continue;
            }
            let replaced: String = now
                .iter()
                .enumerate()
                .map(|(i, part)| if i == at { short } else { *part })
                .collect();
            let candidate = with(best, replaced);
            attempt(best, candidate);
        }
    }
}

/// Words, texts in quotes, runs of blanks; everything else by itself.
fn tokens(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '"' => quoted(rest),
            _ if first.is_alphanumeric() || first == '_' => {
                rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len())
            }
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(len);
        out.push(token);
        rest = after;
    }
    out
}

/// The length of a short text in quotes; a long one is taken apart.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, char) in text.char_indices().skip(1).take(4) {
        match char {
            '\n' => return 1,
            '"' if !escaped => return at + 1,
            _ => escaped = char == '\\' && !escaped,
        }
    }
    1
}
