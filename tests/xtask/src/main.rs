//! Developer tasks: up, exec, test, crds, definitions, answers, bench.

fn main() {}
