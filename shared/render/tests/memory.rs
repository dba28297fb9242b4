//! What compiled definitions take, measured as the growth of this process, and that the cache
//! stops growing. One test in a process of its own: others would be measured too.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a test may fail and reports")]

mod builtin;

use std::num::NonZeroUsize;

use vela_render::{Definition, Options, Renderer, Template};

/// The most a compiled definition may take, its status texts and cache entry included.
const MAX_BYTES: usize = 200_000;

/// The memory of this process in bytes.
fn resident() -> usize {
    const PAGE: usize = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * PAGE
}

/// Compiles every definition once more, as another text.
fn compile(renderer: &Renderer, all: &[Definition], round: usize) {
    for definition in all {
        let text = format!("{}\n// {round}\n", definition.template.text());
        let template = Template::Cue(text.into());
        let definition = Definition { template, ..definition.clone() };
        renderer.compile(&definition).expect("a built-in definition compiles");
    }
}

#[test]
fn a_compiled_definition_is_small_and_the_cache_is_bounded() {
    const ROUNDS: usize = 6;
    let all = builtin::definitions(&["component", "trait", "policy"]);
    let renderer = Renderer::new(Options {
        cache: NonZeroUsize::new(100_000).expect("not zero"),
        cache_bytes: usize::MAX,
        ..Options::default()
    });
    // The first round warms the allocator.
    compile(&renderer, &all, 0);
    let (before, (warm, _)) = (resident(), renderer.compiled());
    for round in 1..=ROUNDS {
        compile(&renderer, &all, round);
    }
    // Some definitions have the same text: they are compiled once.
    let (kept, estimate) = renderer.compiled();
    let each = resident().saturating_sub(before) / (kept - warm);
    println!("{kept} compiled definitions: {each} bytes each, reckoned {}", estimate / kept);
    assert_eq!(kept, (ROUNDS + 1) * warm);
    assert!(warm > 40, "only {warm} definitions");
    assert!(each <= MAX_BYTES, "{each} bytes for a compiled definition");
    assert!(estimate / kept >= each, "the cache reckons less than what is taken");

    // A cache of two megabytes takes no more however much is compiled.
    const BOUND: usize = 2 << 20;
    let bounded = Renderer::new(Options { cache_bytes: BOUND, ..Options::default() });
    compile(&bounded, &all, 0);
    let before = resident();
    for round in 1..=ROUNDS {
        compile(&bounded, &all, round);
        assert!(bounded.compiled().1 <= BOUND, "{} bytes", bounded.compiled().1);
    }
    let grown = resident().saturating_sub(before);
    println!("a cache of {BOUND} bytes grew by {grown}");
    assert!(grown <= BOUND, "the cache of {BOUND} bytes grew by {grown}");
}
