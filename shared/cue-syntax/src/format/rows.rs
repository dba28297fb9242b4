//! Rows of cells: the alignment of values and comments in neighbouring lines.

use super::Indent;

/// A line under construction or done.
#[derive(Debug, Default)]
struct Row {
    indent: usize,
    /// Lines of a multi-line literal: not part of any alignment.
    literal: bool,
    /// Rows of different sections are not aligned with each other.
    section: usize,
    /// How many labels stand before the value.
    labels: usize,
    cells: Vec<String>,
    comment: Option<String>,
}

/// The output, line by line. Cells of consecutive rows of a section are aligned.
#[derive(Debug, Default)]
pub(super) struct Rows {
    done: Vec<Row>,
    current: Row,
    indent: usize,
    literal: bool,
    section: usize,
}

impl Rows {
    pub(super) fn text(&mut self, text: &str) {
        if self.is_fresh() {
            self.current.indent = self.indent;
            self.current.section = self.section;
            self.current.literal = self.literal;
        }
        match self.current.cells.last_mut() {
            Some(cell) => cell.push_str(text),
            None => self.current.cells.push(text.to_owned()),
        }
    }

    /// Whether nothing stands on the current line.
    pub(super) fn is_fresh(&self) -> bool {
        self.current.cells.is_empty() && self.current.comment.is_none()
    }

    pub(super) fn has_text(&self) -> bool {
        !self.done.is_empty() || !self.is_fresh()
    }

    pub(super) fn ends_with_comment(&self) -> bool {
        self.is_fresh()
            && self
                .done
                .last()
                .is_none_or(|row| row.cells.first().is_none_or(|cell| cell.starts_with("//")))
    }

    /// Begins a new cell on the current line.
    pub(super) fn cell(&mut self) {
        self.current.cells.push(String::new());
    }

    /// Begins the cell of a value; returns the line's number for [`Rows::unalign`].
    pub(super) fn value_cell(&mut self, labels: usize) -> usize {
        self.cell();
        self.current.labels = labels;
        self.done.len()
    }

    /// If the row has been continued on further lines, its cells are not aligned.
    pub(super) fn unalign(&mut self, row: usize) {
        if row < self.done.len() {
            let row = &mut self.done[row];
            let cells = std::mem::take(&mut row.cells);
            row.cells = vec![cells.join(" ")];
        }
    }

    /// Ends the current line.
    pub(super) fn newline(&mut self) {
        if self.is_fresh() {
            self.current.indent = self.indent;
            self.current.section = self.section;
            self.current.literal = self.literal;
        }
        self.done.push(std::mem::take(&mut self.current));
    }

    /// Ends the current line if something stands on it.
    pub(super) fn fresh(&mut self) {
        if !self.is_fresh() {
            self.newline();
        }
    }

    /// Puts an empty line before the next text, unless there is one, or nothing above, or an
    /// opening bracket above.
    pub(super) fn blank(&mut self) {
        self.fresh();
        let wanted = self.done.last().is_some_and(|row| {
            row.cells.last().is_some_and(|cell| {
                let opens = cell.ends_with(['{', '[', '(']) && row.indent < self.indent;
                !opens
            }) || row.cells.is_empty() && row.comment.is_some()
        });
        if wanted {
            self.done.push(Row::default());
        }
    }

    pub(super) fn blank_if_text(&mut self) {
        self.fresh();
        if !self.ends_with_comment() {
            self.blank();
        }
    }

    /// A comment behind what was printed last.
    pub(super) fn comment(&mut self, text: &str) {
        if self.is_fresh()
            && let Some(row) = self.done.last_mut()
            && row.cells.first().is_some_and(|cell| !cell.starts_with("//"))
            && row.comment.is_none()
        {
            row.comment = Some(text.to_owned());
            return;
        }
        if self.is_fresh() {
            self.text(text);
        } else {
            self.current.comment = Some(text.to_owned());
        }
        self.newline();
    }

    pub(super) fn indent(&mut self) {
        self.indent += 1;
    }

    pub(super) fn dedent(&mut self) {
        self.indent = self.indent.saturating_sub(1);
    }

    /// The following lines belong to a multi-line literal.
    pub(super) fn begin_literal(&mut self, deeper: bool) {
        self.indent += usize::from(deeper);
        self.literal = true;
    }

    pub(super) fn end_literal(&mut self, deeper: bool) {
        self.indent -= usize::from(deeper).min(self.indent);
        self.literal = false;
    }

    /// The following lines belong to a literal that stays as it is; returns what ends them.
    pub(super) fn begin_verbatim(&mut self) -> usize {
        self.literal = true;
        std::mem::take(&mut self.indent)
    }

    pub(super) fn end_verbatim(&mut self, outer: usize) {
        self.indent = outer;
        self.literal = false;
    }

    /// What follows is not aligned with what stands above.
    pub(super) fn section(&mut self) {
        self.section += 1;
        self.current.section = self.section;
    }

    pub(super) fn end_section(&mut self) {
        self.section += 1;
    }

    pub(super) fn finish(mut self, indent: Indent) -> String {
        self.fresh();
        let mut rows = self.done;
        for row in &mut rows {
            let comment = row.comment.take();
            row.cells.extend(comment);
        }
        align(&mut rows);
        let unit = match indent {
            Indent::Tab => "\t".to_owned(),
            Indent::Spaces(width) => " ".repeat(width),
        };
        let mut out = String::new();
        for row in rows {
            let text = row.cells.concat();
            let text = if row.literal { text.as_str() } else { text.trim_end() };
            if !text.is_empty() {
                out.push_str(&unit.repeat(row.indent));
                out.push_str(text);
            }
            out.push('\n');
        }
        let end = out.trim_end_matches('\n').len();
        out.truncate(end);
        if !out.is_empty() {
            out.push('\n');
        }
        out
    }
}

/// Pads the cells of each column, over every run of rows that have a cell behind it.
fn align(rows: &mut [Row]) {
    let columns = rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
    for column in 0..columns.saturating_sub(1) {
        let mut start = 0;
        while start < rows.len() {
            let mut end = start;
            let mut width = 0;
            while end < rows.len()
                && rows[end].cells.len() > column + 1
                && rows[end].section == rows[start].section
                && rows[end].indent == rows[start].indent
                && rows[end].labels == rows[start].labels
            {
                width = width.max(rows[end].cells[column].chars().count());
                end += 1;
            }
            for row in &mut rows[start..end] {
                let length = row.cells[column].chars().count();
                row.cells[column].push_str(&" ".repeat(width - length + 1));
            }
            start = end.max(start + 1);
        }
    }
}
