//! Properties of decimals and standard packages over random input.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

use cue::std::{BuiltinError, Item, Run, lookup};
use cue::{Budget, Decimal, Limits, Number, Value};
use proptest::prelude::*;

fn call(path: &str, name: &str, args: &[Value]) -> Result<Value, BuiltinError> {
    let Some(Item::Func(builtin)) = lookup(path, name).map(|m| &m.item) else {
        panic!("no {path}.{name}")
    };
    let Run::Pure(run) = builtin.run else { panic!("{path}.{name} is lazy") };
    let mut args = args.to_vec();
    args.extend(builtin.params.iter().skip(args.len()).filter_map(|p| p.default).map(Value::from));
    run(&args, &mut Budget::new(&Limits::default()))
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        "-?[1-9][0-9]{0,40}".prop_map(|s| Value::Number(Number::int(Decimal::parse(&s).unwrap()))),
        "-?[0-9]{1,20}\\.[0-9]{1,20}(e-?[0-9]{1,2})?"
            .prop_map(|s| Value::Number(Number::float(Decimal::parse(&s).unwrap()))),
    ]
}

/// Text with a taste for what formats treat specially.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[-+:#?!&*|>'\"%@`{}\\[\\], \n\t~=.<\\\\0-9a-zA-Z]{0,12}",
        "(yes|no|null|~|true|0x1F|1_0|017|2001-01-01|\\.inf|<<|---|- |a: |\n| )",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// Floats with a whole value read back from JSON text as what they are written as.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.compare(b).is_eq(),
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Struct(a), Value::Struct(b)) => {
            // Order counts.
            a.len() == b.len() && a.iter().zip(b).all(|((k, v), (l, w))| k == l && same(v, w))
        }
        _ => a == b,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_round_trips(v in value()) {
        let text = call("encoding/json", "Marshal", std::slice::from_ref(&v)).unwrap();
        let back = call("encoding/json", "Unmarshal", std::slice::from_ref(&text)).unwrap();
        prop_assert!(same(&v, &back), "{text:?}");
        let indented = call("encoding/json", "Indent", &[text.clone(), "".into(), "  ".into()]).unwrap();
        let compact = call("encoding/json", "Compact", &[indented]).unwrap();
        prop_assert_eq!(compact, text);
    }

    #[test]
    fn yaml_round_trips(v in value()) {
        let text = call("encoding/yaml", "Marshal", std::slice::from_ref(&v)).unwrap();
        let back = call("encoding/yaml", "Unmarshal", std::slice::from_ref(&text));
        prop_assert!(back.as_ref().is_ok_and(|b| same(&v, b)), "{}\n{back:?}", text.as_str().unwrap());
    }

    #[test]
    fn readers_survive_anything(text in any::<String>(), yamlish in "[-a-c:#&*!|>'\"{}\\[\\],? \n<0-9~%@.]{0,60}") {
        for (path, name) in [
            ("encoding/json", "Unmarshal"),
            ("encoding/json", "UnmarshalStream"),
            ("encoding/yaml", "UnmarshalStream"),
            ("encoding/toml", "Unmarshal"),
            ("encoding/csv", "Decode"),
            ("html", "Unescape"),
            ("net", "URL"),
            ("time", "ParseDuration"),
            ("uuid", "Parse"),
        ] {
            let _ = call(path, name, &[Value::from(text.as_str())]);
            let _ = call(path, name, &[Value::from(yamlish.as_str())]);
        }
        let _ = call("text/template", "Execute", &[Value::from(text), Value::Null]);
    }

    #[test]
    fn encodings_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..40), s in text()) {
        let bytes = Value::Bytes(bytes.into());
        let b64 = call("encoding/base64", "Encode", &[Value::Null, bytes.clone()]).unwrap();
        prop_assert_eq!(call("encoding/base64", "Decode", &[Value::Null, b64]).unwrap(), bytes.clone());
        let hex = call("encoding/hex", "Encode", std::slice::from_ref(&bytes)).unwrap();
        prop_assert_eq!(call("encoding/hex", "Decode", &[hex]).unwrap(), bytes);
        let quoted = call("strconv", "Quote", &[Value::from(s.as_str())]).unwrap();
        prop_assert_eq!(call("strconv", "Unquote", &[quoted]).unwrap(), Value::from(s.as_str()));
        for (there, back) in [("PathEscape", "PathUnescape"), ("QueryEscape", "QueryUnescape")] {
            let escaped = call("net", there, &[Value::from(s.as_str())]).unwrap();
            prop_assert_eq!(call("net", back, &[escaped]).unwrap(), Value::from(s.as_str()));
        }
        let html = call("html", "Escape", &[Value::from(s.as_str())]).unwrap();
        prop_assert_eq!(call("html", "Unescape", &[html]).unwrap(), Value::from(s.as_str()));
    }

    #[test]
    fn csv_round_trips(rows in prop::collection::vec(prop::collection::vec("[a-c\", \n]{0,5}", 3), 1..5)) {
        let rows: Vec<Value> =
            rows.into_iter().map(|r| Value::List(r.into_iter().map(Value::from).collect())).collect();
        let text = call("encoding/csv", "Encode", &[Value::List(rows.clone())]).unwrap();
        prop_assert_eq!(call("encoding/csv", "Decode", &[text]).unwrap(), Value::List(rows));
    }

    #[test]
    fn strings_hold_together(s in text(), sep in "[,a ]{1,2}", from in 0_i64..8, to in 0_i64..8) {
        let parts = call("strings", "Split", &[s.as_str().into(), sep.as_str().into()]).unwrap();
        prop_assert_eq!(call("strings", "Join", &[parts, sep.as_str().into()]).unwrap(), Value::from(s.as_str()));
        let n = s.chars().count() as i64;
        let part = call("strings", "SliceRunes", &[s.as_str().into(), from.into(), to.into()]);
        prop_assert_eq!(part.is_ok(), from <= to && to <= n);
        if let Ok(part) = part {
            prop_assert_eq!(part.as_str().unwrap().chars().count() as i64, to - from);
        }
        for name in ["ToUpper", "ToLower", "ToTitle", "ToCamel"] {
            let mapped = call("strings", name, &[s.as_str().into()]).unwrap();
            prop_assert_eq!(mapped.as_str().unwrap().chars().count() as i64, n);
        }
    }

    #[test]
    fn paths_are_clean_once(p in "[a/.\\\\:c]{0,12}", q in "[a/.\\\\:c]{0,12}", os in "(unix|windows|plan9)") {
        let os = Value::from(os);
        let clean = call("path", "Clean", &[p.as_str().into(), os.clone()]).unwrap();
        // On Windows `a/../c:` becomes `c:`, a drive, as it does in the reference.
        if os.as_str() != Some("windows") {
            prop_assert_eq!(call("path", "Clean", &[clean.clone(), os.clone()]).unwrap(), clean);
        }
        let _ = call("path", "Rel", &[p.as_str().into(), q.as_str().into(), os.clone()]);
        let _ = call("path", "Match", &[p.as_str().into(), q.as_str().into(), os.clone()]);
        let split = call("path", "Split", &[p.as_str().into(), os]).unwrap();
        let joined: String = split.as_list().unwrap().iter().filter_map(Value::as_str).collect();
        prop_assert_eq!(joined, p);
    }

    #[test]
    fn decimals_print_and_parse(v in number()) {
        let d = v.as_number().unwrap().to_decimal();
        let back = Decimal::parse(&d.to_string()).unwrap();
        prop_assert_eq!(&back, &d);
        prop_assert_eq!(back.exponent(), d.exponent());
        prop_assert_eq!(Decimal::parse(&d.to_plain()).unwrap(), d.clone());
        prop_assert_eq!(d.reduced(), d);
    }

    #[test]
    fn decimal_sums_and_products_are_exact_where_they_fit(a in -1_000_000_000_000_i64..1_000_000_000_000, b in -1_000_000_000_000_i64..1_000_000_000_000, x in 0_i32..6, y in 0_i32..6) {
        let d = |n: i64, places: i32| Decimal::new(n.into(), -places).unwrap();
        let scale = |n: i64, places: i32| i128::from(n) * 10_i128.pow((6 - places) as u32);
        let (da, db) = (d(a, x), d(b, y));
        let sum = da.add(&db).unwrap();
        prop_assert_eq!(&sum, &db.add(&da).unwrap());
        prop_assert_eq!(sum, Decimal::new((scale(a, x) + scale(b, y)).into(), -6).unwrap());
        let product = da.mul(&db).unwrap();
        prop_assert_eq!(product, Decimal::new((i128::from(a) * i128::from(b)).into(), -x - y).unwrap());
        prop_assert_eq!(da.cmp(&db), scale(a, x).cmp(&scale(b, y)));
        if b != 0 {
            // The quotient differs by less than half a unit of the last of 34 digits.
            let quotient = da.quo(&db).unwrap();
            let back = quotient.mul(&db).unwrap();
            let error = back.sub(&da).unwrap().abs();
            prop_assert!(error <= da.abs().mul(&Decimal::parse("1E-32").unwrap()).unwrap());
            let (q, r) = (Decimal::from(a).int_quo(&b.into()).unwrap(), Decimal::from(a).int_rem(&b.into()).unwrap());
            prop_assert_eq!((q, r), (Decimal::from(a / b), Decimal::from(a % b)));
            let (q, r) = (Decimal::from(a).int_div(&b.into()).unwrap(), Decimal::from(a).int_mod(&b.into()).unwrap());
            prop_assert_eq!((q, r), (Decimal::from(a.div_euclid(b)), Decimal::from(a.rem_euclid(b))));
        }
    }

    #[test]
    fn translated_patterns_compile(pattern in "[ab.*+?|()\\[\\]^$\\\\{}0-9,:<>PQEdswbBAzpNL&~#=!i-]{0,14}") {
        use vela_gocompat::regexp::{compile, translate};
        // What Go's grammar accepts, the engine must accept, unless it is too large.
        if let Ok(translated) = translate(&pattern) {
            let compiled = compile(&pattern);
            let fits = compiled.as_ref().map_or_else(|e| e.code.is_limit(), |_| true);
            prop_assert!(fits, "{pattern} became {translated}: {compiled:?}");
        }
    }

    #[test]
    fn floats_round_trip_through_decimals(f in any::<f64>()) {
        if let Some(d) = Decimal::from_f64(f) {
            prop_assert_eq!(d.to_f64(), f);
        }
    }

    #[test]
    fn sorted_lists_are_sorted(items in prop::collection::vec("[a-c]{0,3}", 0..20)) {
        let list = Value::List(items.into_iter().map(Value::from).collect());
        let sorted = call("list", "SortStrings", &[list]).unwrap();
        prop_assert_eq!(call("list", "IsSortedStrings", &[sorted]).unwrap(), Value::from(true));
    }
}
