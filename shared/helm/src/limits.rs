//! What a chart and a render may cost. A bound that is crossed is an error that names it.

/// Bounds of a chart that is loaded. The byte bounds of what an archive holds are Helm's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of an archive.
    pub archive: usize,
    /// Bytes of all files of a chart and its subcharts, without compression.
    pub total: usize,
    /// Bytes of one file.
    pub file: usize,
    /// Files of a chart and its subcharts.
    pub files: usize,
    /// Levels of charts within charts.
    pub depth: usize,
    /// Bytes of a path.
    pub path: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            archive: 20 << 20,
            total: 100 << 20,
            file: 5 << 20,
            files: 10_000,
            depth: 10,
            path: 1024,
        }
    }
}

/// Bounds of one render.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Nodes of templates that are executed, and pieces of work of functions.
    pub steps: u64,
    /// Bytes of one rendered file, and of any text that a function makes.
    pub file: usize,
    /// Bytes of all rendered files.
    pub total: usize,
    /// Bytes that all functions of the render may make.
    pub work: u64,
    /// Bytes of the values, as JSON.
    pub values: usize,
    /// Documents of all rendered files, hooks included.
    pub objects: usize,
    /// Calls of `include` within each other, by name.
    pub includes: usize,
    /// Calls of `tpl` within each other.
    pub tpl: usize,
    /// Bytes of a text given to `tpl`.
    pub tpl_text: usize,
    /// Elements that `until`, `repeat` and their kind may make at once.
    pub elements: usize,
    /// Private keys, whose making is expensive.
    pub keys: usize,
    /// Bytes of the thread's stack that templates within templates may take; the thread needs more.
    pub stack: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            steps: 50_000_000,
            file: 16 << 20,
            total: 64 << 20,
            work: 4 << 30,
            values: 4 << 20,
            objects: 5000,
            includes: 1000,
            tpl: 100,
            tpl_text: 1 << 20,
            elements: 1_000_000,
            keys: 64,
            stack: 12 << 20,
        }
    }
}
