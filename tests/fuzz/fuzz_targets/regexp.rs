//! Any pattern compiles or not; what compiles searches any text within what it may cost, and both
//! ways to search find the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use vela_gocompat::regexp::{Allowance, Matcher, compile};

fuzz_target!(|input: (&str, &str)| {
    let (pattern, text) = input;
    let (Ok(matcher), Ok(regexp)) = (Matcher::new(pattern), compile(pattern)) else { return };
    let work = Allowance(1 << 22);
    let matched = regexp.is_match(text, &mut work.clone());
    if let (Ok(one), Ok(other)) = (matcher.is_match(text, &mut work.clone()), matched) {
        assert_eq!(one, other, "{pattern:?} on {text:?}");
    }
    let mut last = 0;
    let _ = regexp.each(text, usize::MAX, &mut work.clone(), |_, found| {
        let (start, end) = found.span();
        assert!(last <= start && start <= end && text.get(start..end).is_some());
        last = end;
        Ok(())
    });
});
