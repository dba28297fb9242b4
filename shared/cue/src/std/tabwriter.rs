//! Package `text/tabwriter`: columns aligned by elastic tab stops.

use super::args::{Out, fail, func, string};
use super::{BuiltinError, Member, Param};
use crate::kind::Kind;
use crate::limits::{Budget, LimitError};
use crate::value::Value;

/// Space between columns.
const PADDING: usize = 1;
/// Columns beyond which a text is refused; each is a level of nesting.
const MOST_COLUMNS: usize = 1000;

pub(super) static PACKAGE: &[Member] =
    &[func("Write", &[Param::ANY], Kind::STRING, |a, b| match a.first() {
        Some(Value::String(text)) => align(text, b),
        Some(Value::List(lines)) => {
            let mut text = String::new();
            for line in lines {
                match line.as_str() {
                    Some(line) => text.push_str(line),
                    None => {
                        return fail(format!("cannot use {} as string", super::args::short(line)));
                    }
                }
                text.push('\n');
                b.steps(1)?;
                check(text.len(), b)?;
            }
            align(&text, b)
        }
        _ => fail("unsupported type"),
    })];

fn align(text: &str, budget: &mut Budget) -> Out {
    let lines: Vec<Vec<&str>> =
        text.split(['\n', '\u{c}']).map(|line| line.split(['\t', '\u{b}']).collect()).collect();
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    if columns > MOST_COLUMNS {
        return Err(budget.cross(LimitError::String).into());
    }
    budget.list(lines.len() as u64)?;
    let mut widths: Vec<Vec<usize>> = lines.iter().map(|l| Vec::with_capacity(l.len())).collect();
    // A column is a run of lines that have a cell ended by a tab there; each run has its width.
    for column in 0..columns.saturating_sub(1) {
        let mut start = 0;
        while start < lines.len() {
            budget.steps(1)?;
            let in_column = |line: &Vec<&str>| column + 1 < line.len();
            let run = lines.iter().skip(start).take_while(|l| in_column(l)).count();
            if run == 0 {
                start += 1;
                continue;
            }
            let cells = lines.iter().skip(start).take(run);
            let width = cells
                .filter_map(|l| l.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
                + PADDING;
            budget.steps(run as u64)?;
            for line in widths.iter_mut().skip(start).take(run) {
                line.push(width);
            }
            start += run;
        }
    }
    let mut out = String::with_capacity(text.len() * 2);
    for (i, (line, widths)) in lines.iter().zip(&widths).enumerate() {
        if i > 0 {
            out.push('\n');
        }
        for (j, cell) in line.iter().enumerate() {
            out.push_str(cell);
            if let Some(width) = widths.get(j) {
                let padding = width.saturating_sub(cell.chars().count());
                check(out.len() + padding, budget)?;
                out.extend(std::iter::repeat_n(' ', padding));
            }
        }
    }
    string(out, budget)
}

fn check(len: usize, budget: &mut Budget) -> Result<(), BuiltinError> {
    if len as u64 > budget.limits().string {
        return Err(budget.cross(LimitError::String).into());
    }
    Ok(())
}
