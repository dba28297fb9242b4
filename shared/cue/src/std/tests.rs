//! Calls of the pure functions, as tables: package, name, arguments as JSON, result as JSON or
//! the error after `error in call to`.

use super::{BuiltinError, Item, Param, Run};
use crate::kind::Kind;
use crate::limits::{Budget, Limits};
use crate::value::Value;

/// Calls a function the way the evaluator does: defaults filled in, kinds checked.
fn call(path: &str, name: &str, args: &[Value]) -> Result<Value, BuiltinError> {
    let member = super::lookup(path, name).unwrap_or_else(|| panic!("no {path}.{name}"));
    let Item::Func(builtin) = &member.item else { panic!("{path}.{name} is no function") };
    let Run::Pure(run) = builtin.run else { panic!("{path}.{name} is lazy") };
    let mut args = args.to_vec();
    for param in builtin.params.iter().skip(args.len()) {
        args.push(Value::from(param.default.expect("argument missing")));
    }
    for (param, arg) in builtin.params.iter().zip(&args) {
        assert!(param.kind.intersects(arg.kind()), "{path}.{name}: kind of {arg:?}");
    }
    let result = run(&args, &mut Budget::new(&Limits::default()))?;
    assert!(builtin.result.contains(result.kind()), "{path}.{name}: result {result:?}");
    Ok(result)
}

/// Arguments in JSON; `b'..'` is not JSON, so bytes are tested by their own cases.
fn json(text: &str) -> Vec<Value> {
    let mut budget = Budget::new(&Limits::default());
    match super::json::read(&format!("[{text}]"), &mut budget) {
        Ok(Value::List(l)) => l,
        other => panic!("{text}: {other:?}"),
    }
}

fn check(path: &str, rows: &[(&str, &str, &str)]) {
    for (name, args, want) in rows {
        let got = match call(path, name, &json(args)) {
            Ok(v) => v.to_json_text(),
            Err(BuiltinError::Message(m) | BuiltinError::Invalid(m)) => format!("! {m}"),
            Err(BuiltinError::Limit(l)) => format!("!! {l}"),
        };
        assert_eq!(got, *want, "{path}.{name}({args})");
    }
}

#[test]
fn strings() {
    check(
        "strings",
        &[
            ("Join", r#"["Hello","World!"], " ""#, r#""Hello World!""#),
            ("Join", r#"[], " ""#, r#""""#),
            (
                "Join",
                r#"[1], " ""#,
                "! invalid list element 0 in argument 0 to call: cannot use value 1 (int) as string",
            ),
            ("ByteAt", r#""a", 0"#, "97"),
            ("ByteAt", r#""a", 1"#, "! index out of range"),
            ("ByteAt", r#""a", -1"#, "! index out of range"),
            ("ByteSlice", r#""Hello", 2, 5"#, r#""bGxv""#),
            ("ByteSlice", r#""Hello", 3, 2"#, "! index out of range"),
            ("Runes", r#""Café""#, "[67,97,102,233]"),
            ("SliceRunes", r#""✓ Hello", 0, 3"#, r#""✓ H""#),
            ("SliceRunes", r#""Hello", 5, 5"#, r#""""#),
            ("SliceRunes", r#""Hello", 0, 6"#, "! index out of range"),
            ("SliceRunes", r#""", 0, 0"#, r#""""#),
            ("SliceRunes", r#""", 1, 1"#, "! index out of range"),
            ("ToCamel", r#""AlphaBeta Gamma""#, r#""alphaBeta gamma""#),
            ("ToTitle", r#""alpha ǆ beta""#, r#""Alpha ǅ Beta""#),
            ("ToUpper", r#""straße ŉ ᾳ""#, r#""STRAßE ŉ ᾼ""#),
            ("ToLower", r#""ΑΣ İ""#, r#""ασ i""#),
            ("MinRunes", r#""äé", 2"#, "true"),
            ("MaxRunes", r#""äéi", 2"#, "false"),
            ("Compare", r#""a", "b""#, "-1"),
            ("Count", r#""cheese", "e""#, "3"),
            ("Count", r#""five", """#, "5"),
            ("Contains", r#""seafood", """#, "true"),
            ("ContainsAny", r#""seafood", """#, "false"),
            ("ContainsAny", r#""seafood", "xf""#, "true"),
            ("Index", r#""chickén", "n""#, "7"),
            ("Index", r#""a", "b""#, "-1"),
            ("LastIndex", r#""go gopher", "go""#, "3"),
            ("IndexAny", r#""golang", "gy""#, "0"),
            ("LastIndexAny", r#""golang", "gy""#, "5"),
            ("Split", r#""a,b,c", ",""#, r#"["a","b","c"]"#),
            ("Split", r#"" xyz", """#, r#"[" ","x","y","z"]"#),
            ("Split", r#""", ",""#, r#"[""]"#),
            ("Split", r#""", """#, "[]"),
            ("SplitN", r#""a,b,c", ",", 2"#, r#"["a","b,c"]"#),
            ("SplitN", r#""a,b,c", ",", 0"#, "[]"),
            ("SplitN", r#""abc", "", 2"#, r#"["a","bc"]"#),
            ("SplitAfter", r#""a,b,c", ",""#, r#"["a,","b,","c"]"#),
            ("SplitAfterN", r#""a,b,c", ",", 2"#, r#"["a,","b,c"]"#),
            ("Fields", r#""  foo \t bar\n""#, r#"["foo","bar"]"#),
            ("HasPrefix", r#""golang", "go""#, "true"),
            ("HasSuffix", r#""golang", "go""#, "false"),
            ("Repeat", r#""na", 2"#, r#""nana""#),
            ("Repeat", r#""na", -1"#, "! strings: negative Repeat count"),
            ("Repeat", r#""", 9223372036854775807"#, r#""""#),
            ("Repeat", r#""x", 9223372036854775807"#, "!! string is longer than allowed"),
            ("Trim", r#""¡¡Hi!!", "!¡""#, r#""Hi""#),
            ("TrimLeft", r#""xxa", "x""#, r#""a""#),
            ("TrimRight", r#""axx", "x""#, r#""a""#),
            ("TrimSpace", r#"" \u00a0\u2003a\t\n""#, r#""a""#),
            ("TrimPrefix", r#""aab", "a""#, r#""ab""#),
            ("TrimSuffix", r#""abb", "b""#, r#""ab""#),
            ("Replace", r#""oink oink oink", "k", "ky", 2"#, r#""oinky oinky oink""#),
            ("Replace", r#""oink oink", "oink", "moo", -1"#, r#""moo moo""#),
            ("Replace", r#""ab", "", "-", -1"#, r#""-a-b-""#),
            ("Replace", r#""ab", "", "-", 2"#, r#""-a-b""#),
        ],
    );
}

#[test]
fn strconv() {
    check(
        "strconv",
        &[
            ("FormatUint", "64, 16", r#""40""#),
            ("FormatUint", "-1, 10", "! cannot use -1 (type int) as uint64 in argument 0"),
            ("FormatInt", "-255, 16", r#""-ff""#),
            (
                "FormatInt",
                "170141183460469231731687303715884105728, 10",
                r#""170141183460469231731687303715884105728""#,
            ),
            ("FormatInt", "61, 62", r#""Z""#),
            ("FormatInt", "1, 1", "! strconv: illegal AppendInt/FormatInt base"),
            ("FormatFloat", "3.02, 300, 4, 64", "! int 300 overflows byte in argument 1"),
            ("FormatFloat", "3.02, -1, 4, 64", "! cannot use -1 (type int) as byte in argument 1"),
            ("FormatFloat", "3.02, 102, 4, 64", r#""3.0200""#),
            ("FormatFloat", "0.0, 102, -1, 64", r#""0""#),
            ("FormatFloat", "1e20, 103, -1, 64", r#""1e+20""#),
            ("FormatBool", "true", r#""true""#),
            ("ParseBool", r#""T""#, "true"),
            ("ParseBool", r#""yes""#, "! strconv.ParseBool: parsing \"yes\": invalid syntax"),
            ("Atoi", r#""-42""#, "-42"),
            ("Atoi", r#""4 2""#, "! strconv.Atoi: parsing \"4 2\": invalid syntax"),
            ("ParseInt", r#""0xff", 0, 64"#, "255"),
            (
                "ParseInt",
                r#""300", 10, 8"#,
                "! strconv.ParseInt: parsing \"300\": value out of range",
            ),
            ("ParseUint", r#""18446744073709551615", 10, 64"#, "18446744073709551615"),
            ("ParseFloat", r#""1.5", 64"#, "1.5"),
            ("ParseFloat", r#""x", 64"#, "! strconv.ParseFloat: parsing \"x\": invalid syntax"),
            ("Quote", r#""a\n\"é""#, r#""\"a\\n\\\"é\"""#),
            ("QuoteToASCII", r#""é""#, r#""\"\\u00e9\"""#),
            ("Unquote", r#""\"a\\n\"""#, r#""a\n""#),
            ("Unquote", r#""a""#, "! invalid syntax"),
        ],
    );
}

#[test]
fn list() {
    check(
        "list",
        &[
            ("Avg", "[1,2,3,4]", "2.5"),
            ("Avg", "[4,8,12]", "8"),
            ("Avg", "[]", "! empty list"),
            ("Sum", "[1,2,3.5]", "6.5"),
            ("Sum", "[]", "0"),
            ("Product", "[2,3,4]", "24"),
            ("Product", "[]", "1"),
            ("Min", "[3,1,2]", "1"),
            ("Max", "[3,1,2.5]", "3"),
            ("Max", "[]", "! empty list"),
            ("Range", "0, 5, 2", "[0,2,4]"),
            ("Range", "5, 0, -1", "[5,4,3,2,1]"),
            ("Range", "0, 2, 0.5", "[0,0.5,1,1.5]"),
            ("Range", "0, 0, 1", "[]"),
            ("Range", "5, 0, 1", "! end must be greater than start when step is positive"),
            ("Range", "0, 5, -1", "! end must be less than start when step is negative"),
            ("Range", "0, 5, 0", "! step must be non zero"),
            ("Range", "0, 1e9, 1", "!! list or struct has more elements than allowed"),
            ("Range", "0, 1, 1e-90000", "!! list or struct has more elements than allowed"),
            (
                "Range",
                "1e40, 1.00000000000000000000000000000000000002e40, 1",
                "! step is too small for the range",
            ),
            ("SortStrings", r#"["b","a","C"]"#, r#"["C","a","b"]"#),
            ("IsSortedStrings", r#"["a","b"]"#, "true"),
        ],
    );
}

#[test]
fn math() {
    check(
        "math",
        &[
            ("Floor", "-2.2", "-3"),
            ("Floor", "29e2", "2900"),
            ("Ceil", "2.1", "3"),
            ("Trunc", "-2.9", "-2"),
            ("Round", "-2.5", "-3"),
            ("RoundToEven", "2.5", "2"),
            ("MultipleOf", "22, 2", "true"),
            ("MultipleOf", "5555555, 2", "false"),
            ("MultipleOf", "100.01, 4", "false"),
            ("MultipleOf", "100, 1.00001", "false"),
            ("MultipleOf", "100e100, 10", "true"),
            ("MultipleOf", "7, -3.5", "true"),
            ("MultipleOf", "1e90000, 3e-90000", "false"),
            ("MultipleOf", "1, 0", "! division by zero"),
            ("Abs", "-2.2", "2.2"),
            ("Copysign", "5, -2.2", "-5"),
            ("Dim", "3, 5", "0"),
            ("Signbit", "-4", "true"),
            ("Pow", "8, 4", "4096"),
            ("Pow", "2, 0.5", "1.414213562373095048801688724209698"),
            ("Pow", "-8, 0.5", "! invalid operation"),
            ("Pow10", "4", "10000"),
            ("Pow10", "2147483648", "! int 2147483648 overflows int32 in argument 0"),
            ("Pow10", "999999", "!! number is larger than allowed"),
            ("Exp", "1e9", "!! number is larger than allowed"),
            ("Log2", "8", "3"),
            ("Log10", "1000", "3"),
            ("Sqrt", "2", "1.4142135623730951"),
            ("Sqrt", "-2", "! result is not a number: NaN"),
            (
                "Asin",
                "2.0e400",
                "! cannot use 2.0E+400 (type float) as float64 in argument 0: value was rounded up",
            ),
            ("Jacobi", "1000, 201", "1"),
            ("Jacobi", "2, 15", "1"),
            ("Jacobi", "5, 21", "1"),
            ("Jacobi", "7, 15", "-1"),
            (
                "Jacobi",
                "3, 4",
                "! big: invalid 2nd argument to Int.Jacobi: need odd integer but got 4",
            ),
            ("Erfinv", "0.5", "0.4769362762044699"),
            ("Ilogb", "8", "3"),
            ("Ldexp", "0.5, 3", "4"),
            ("Gamma", "5", "24"),
        ],
    );
    check(
        "math/bits",
        &[
            ("Or", "8, 1", "9"),
            ("Lsh", "8, 4", "128"),
            ("Lsh", "1, 9999999999", "!! number is larger than allowed"),
            ("Lsh", "0, 9999999999", "0"),
            ("Rsh", "256, 4", "16"),
            ("Rsh", "-1, 9999999999", "-1"),
            ("At", "256, 8", "1"),
            ("At", "256, 9", "0"),
            ("At", "-1, 99999999999", "1"),
            ("Set", "256, 7, 1", "384"),
            ("Set", "256, 8, 0", "0"),
            ("Set", "0, 0, 2", "! bit is neither 0 nor 1"),
            ("Clear", "15, 72057594037927944", "7"),
            ("And", "295147905179352829710, 61687", "6"),
            ("OnesCount", "255", "8"),
            ("Len", "8", "4"),
        ],
    );
}

#[test]
fn encodings() {
    check(
        "encoding/base64",
        &[
            ("Encode", r#"null, "foo""#, r#""Zm9v""#),
            ("Decode", r#"null, "Zm9v""#, r#""Zm9v""#),
            ("Decode", r#"null, "Zm9vYg==\n""#, r#""Zm9vYg==""#),
            ("Decode", r#"null, "Zm9vYg""#, "! illegal base64 data at input byte 4"),
            ("Decode", r#"null, "Zm9!""#, "! illegal base64 data at input byte 3"),
            ("Decode", r#"null, "Zg=x""#, "! illegal base64 data at input byte 3"),
            (
                "Decode",
                r#"{}, "foo""#,
                "! base64: unsupported encoding: cannot use value {} (type struct) as null",
            ),
        ],
    );
    check(
        "encoding/hex",
        &[
            ("Encode", r#""foo""#, r#""666f6f""#),
            ("Decode", r#""666F6f""#, r#""Zm9v""#),
            ("Decode", r#""foo""#, "! encoding/hex: invalid byte: U+006F 'o'"),
            ("Decode", r#""fff""#, "! encoding/hex: odd length hex string"),
            (
                "Dump",
                r#""a""#,
                r#""00000000  61                                                |a|\n""#,
            ),
        ],
    );
    check(
        "encoding/json",
        &[
            (
                "Marshal",
                r#"{"b":[1,1.0,1e3,"<&>\u2028\b"],"a":null}"#,
                r#""{\"b\":[1,1.0,1E+3,\"<&>\\u2028\\b\"],\"a\":null}""#,
            ),
            ("MarshalStream", r#"[{"a":1},2]"#, r#""{\"a\":1}\n2\n""#),
            (
                "Unmarshal",
                r#""{\"b\":1,\"a\":[true,1.50,\"\\ud83d\\ude00\\/\"]}""#,
                r#"{"b":1,"a":[true,1.50,"😀/"]}"#,
            ),
            ("Unmarshal", r#""{\"a\":{\"x\":1},\"a\":{\"y\":2}}""#, r#"{"a":{"x":1,"y":2}}"#),
            ("Unmarshal", r#""{\"a\":1,\"a\":2}""#, "! a: conflicting values 1 and 2"),
            ("Unmarshal", r#""{\"a\": 1}}invalid json""#, "! json: invalid JSON"),
            ("Unmarshal", r#""01""#, "! json: invalid JSON"),
            ("Unmarshal", r#""""#, "! json: invalid JSON"),
            ("Unmarshal", r#""1e999999""#, "!! number is larger than allowed"),
            ("UnmarshalStream", r#""1 [2]\n{\"a\":3}""#, r#"[1,[2],{"a":3}]"#),
            ("Valid", r#""{\"a\":1,}""#, "false"),
            ("Valid", r#"" [1] ""#, "true"),
            (
                "Compact",
                r#""[1, 2 , {\"a b\": \"c \\\" d\"}]""#,
                r#""[1,2,{\"a b\":\"c \\\" d\"}]""#,
            ),
            ("Compact", r#""[1""#, "! unexpected end of JSON input"),
            (
                "Indent",
                r#""{\"a\": 1, \"b\": [], \"c\":[1,2]}\n", "", "  ""#,
                r#""{\n  \"a\": 1,\n  \"b\": [],\n  \"c\": [\n    1,\n    2\n  ]\n}\n""#,
            ),
            ("HTMLEscape", r#""\"<&>\"""#, r#""\"\\u003c\\u0026\\u003e\"""#),
        ],
    );
    let deep = Value::from("[".repeat(100_000));
    assert!(matches!(call("encoding/json", "Unmarshal", &[deep]), Err(BuiltinError::Limit(_))));
}

#[test]
fn path() {
    check(
        "path",
        &[
            ("Dir", r#""/a/b/c""#, r#""/a/b""#),
            ("Dir", r#""a""#, r#"".""#),
            ("Dir", r#""\\\\host\\share\\a", "windows""#, r#""\\\\host\\share\\""#),
            ("Base", r#""/a/b/""#, r#""b""#),
            ("Base", r#""/""#, r#""/""#),
            ("Base", r#""""#, r#"".""#),
            ("Base", r#""C:\\x\\y.txt", "windows""#, r#""y.txt""#),
            ("Ext", r#""a.dir/b""#, r#""""#),
            ("Ext", r#""a.dir\\foo", "unix""#, r#"".dir\\foo""#),
            ("Ext", r#""a.dir\\foo", "windows""#, r#""""#),
            ("Clean", r#""abc//def//../ghi/.""#, r#""abc/ghi""#),
            ("Clean", r#""/../a""#, r#""/a""#),
            ("Clean", r#""../..""#, r#""../..""#),
            ("Clean", r#""""#, r#"".""#),
            ("Clean", r#""c:\\abc\\def\\..\\..", "windows""#, r#""c:\\""#),
            ("Clean", r#""c:", "windows""#, r#""c:.""#),
            ("Join", r#"["a","","b/../c"]"#, r#""a/c""#),
            ("Join", r#"[]"#, r#""""#),
            ("Join", r#"["C:","","","b"], "windows""#, r#""C:b""#),
            ("Join", r#"["C:.","a"], "windows""#, r#""C:a""#),
            ("Join", r#"["\\\\host\\share","foo"], "windows""#, r#""\\\\host\\share\\foo""#),
            ("Join", r#"["//","a"], "windows""#, r#""\\a""#),
            ("Split", r#""/foo/bar""#, r#"["/foo/","bar"]"#),
            ("Split", r#""c:\\foo", "windows""#, r#"["c:\\","foo"]"#),
            ("SplitList", r#""a:b", "unix""#, r#"["a","b"]"#),
            ("SplitList", r#""a;\"b;c\"", "windows""#, r#"["a","b;c"]"#),
            ("Match", r#""*.txt", "a/b.txt""#, "false"),
            ("Match", r#""*.txt", "a/b.txt", "windows""#, "true"),
            ("Match", r#""a[b-d]?[^x]\\*", "acé1*""#, "true"),
            ("Match", r#""a*b*c", "aXbYbZc""#, "true"),
            ("Match", r#""[]a]", "]""#, "! syntax error in pattern"),
            ("Match", r#""[a", "a""#, "! syntax error in pattern"),
            ("Match", r#""*[", "b""#, "! syntax error in pattern"),
            ("IsAbs", r##""c:\\", "windows""##, "true"),
            ("IsAbs", r##""/a", "windows""##, "false"),
            ("IsAbs", r##""#a", "plan9""##, "true"),
            ("IsAbs", r#""NUL", "windows""#, "true"),
            ("Resolve", r#""/a/b", "/c/d""#, r#""/c/d""#),
            ("Resolve", r#""c:/a", "d:\\", "windows""#, r#""d:\\""#),
            ("Rel", r#""/a", "/b/c""#, r#""../b/c""#),
            ("Rel", r#""/a", "/a""#, r#"".""#),
            ("Rel", r#""a", "/b""#, "! Rel: can't make /b relative to a"),
            ("Rel", r#""../..", "..""#, "! Rel: can't make .. relative to ../.."),
            ("VolumeName", r#""\\\\host\\share\\foo", "windows""#, r#""\\\\host\\share""#),
            ("VolumeName", r#""\\\\\\host\\share", "windows""#, r#""""#),
            ("FromSlash", r#""/a//b", "windows""#, r#""\\a\\\\b""#),
            ("ToSlash", r#""\\a", "windows""#, r#""/a""#),
            ("Dir", r#""a", "beos""#, "! unsupported OS \"beos\""),
        ],
    );
}

#[test]
fn regexps() {
    check(
        "regexp",
        &[
            ("Find", r#""f\\w\\w", "afoot""#, r#""foo""#),
            ("Find", r#""f\\w\\w", "bar""#, "! no match"),
            ("FindAll", r#""f\\w\\w", "afoot afloat from", 2"#, r#"["foo","flo"]"#),
            ("FindAll", r#""f", "f", 0"#, "! no match"),
            ("FindSubmatch", r#""f(\\w)(x)?", "afloat""#, r#"["fl","l",""]"#),
            ("FindAllSubmatch", r#""f(\\w)", "fa fb", -1"#, r#"[["fa","a"],["fb","b"]]"#),
            ("FindNamedSubmatch", r#""f(?P<B>\\w)(?P<A>\\w)", "afloat""#, r#"{"A":"o","B":"l"}"#),
            ("FindAllNamedSubmatch", r#""(?P<A>\\d)", "1 2", 1"#, r#"[{"A":"1"}]"#),
            (
                "ReplaceAll",
                r#""f(?P<A>\\w)(\\w)", "afloat from", "-${A}-$2-""#,
                r#""a-l-o-at -r-o-m""#,
            ),
            ("ReplaceAllLiteral", r#""f(\\w)", "afloat", "$1""#, r#""a$1oat""#),
            ("ReplaceAll", r#""x*", "ab", "-""#, r#""-a-b-""#),
            ("Valid", r#""a)""#, "! error parsing regexp: unexpected ): `a)`"),
            (
                "Valid",
                r#""((a{1000}){1000}){1000}""#,
                "!! regular expression is larger than allowed",
            ),
            ("Match", r#""^a$", "a""#, "true"),
        ],
    );
}

#[test]
fn time() {
    check(
        "time",
        &[
            ("Time", r#""1937-01-01T12:00:27.87+00:20""#, "true"),
            ("Time", r#""no time""#, "! invalid time \"no time\""),
            ("Format", r#""2019-01-02", "2006-01-02""#, "true"),
            ("FormatString", r#""Jan 2", "2017-07-14T02:40:00Z""#, r#""Jul 14""#),
            ("Parse", r#""2006-01-02 -0700", "2019-01-02 +0100""#, r#""2019-01-01T23:00:00Z""#),
            ("Unix", "1500000000, 123456", r#""2017-07-14T02:40:00.000123456Z""#),
            (
                "Split",
                r#""2017-07-14T02:40:00.000123456Z""#,
                r#"{"year":2017,"month":7,"day":14,"hour":2,"minute":40,"second":0,"nanosecond":123456}"#,
            ),
            ("Duration", r#""1h""#, "true"),
            ("ParseDuration", r#""1h30m""#, "5400000000000"),
            ("ParseDuration", r#""1x""#, "! time: unknown unit \"x\" in duration \"1x\""),
            ("FormatDuration", "600000000", r#""600ms""#),
        ],
    );
}

#[test]
fn net() {
    check(
        "net",
        &[
            ("FQDN", r#""foo.bar.""#, "true"),
            ("FQDN", r#""foo_bar""#, "false"),
            ("FQDN", r#""-a""#, "false"),
            ("FQDN", r#""""#, "false"),
            ("SplitHostPort", r#""[::%lo0]:80""#, r#"["::%lo0","80"]"#),
            ("SplitHostPort", r#""a:b:c""#, "! address a:b:c: too many colons in address"),
            ("SplitHostPort", r#""a""#, "! address a: missing port in address"),
            ("JoinHostPort", r#"[192,30,4,2], 80"#, r#""192.30.4.2:80""#),
            ("JoinHostPort", r#""::1", "http""#, r#""[::1]:http""#),
            ("IP", r#""23.23.23.23""#, "true"),
            ("IP", r#""fe80::1%eth0""#, "true"),
            ("IP", r#""01.2.3.4""#, "false"),
            ("IP", "3", "false"),
            ("IPv4", r#""2001:db8::1""#, "false"),
            ("IPv6", r#""2001:db8::1""#, "true"),
            ("IPCIDR", r#""172.16.12.3""#, "! netip.ParsePrefix(\"172.16.12.3\"): no '/'"),
            ("IPCIDR", r#""2001:db8:a0b:12f0::1/32""#, "true"),
            (
                "IPCIDR",
                r#""10.0.0.0/33""#,
                "! netip.ParsePrefix(\"10.0.0.0/33\"): prefix length out of range",
            ),
            ("LoopbackIP", "[127,0,0,1]", "true"),
            ("LoopbackIP", "[127,0,0]", "false"),
            ("ParseIP", r#""::1""#, "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]"),
            ("ToIP4", r#""127.0.0.1""#, "[127,0,0,1]"),
            ("ToIP4", r#""x""#, "! invalid IP \"x\""),
            ("ToIP16", r#""127.0.0.1""#, "[0,0,0,0,0,0,0,0,0,0,255,255,127,0,0,1]"),
            ("IPString", "[1,2,3,4]", r#""1.2.3.4""#),
            ("GlobalUnicastIP", r#""8.8.8.8""#, "true"),
            ("MulticastIP", r#""ff02::1""#, "true"),
            ("LinkLocalUnicastIP", r#""169.254.0.1""#, "true"),
            ("AddIP", r#""10.0.0.255", 1"#, r#""10.0.1.0""#),
            (
                "AddIP",
                r#""255.255.255.255", 1"#,
                "! IP address arithmetic resulted in out-of-range address (overflow)",
            ),
            ("AddIPCIDR", r#""10.0.0.0/24", 2"#, r#""10.0.2.0/24""#),
            ("InCIDR", r#""10.0.0.7", "10.0.0.0/24""#, "true"),
            ("InCIDR", r#""10.0.1.7", "10.0.0.0/0""#, "true"),
            ("CompareIP", r#""1.2.3.4", "::1""#, "-1"),
            ("PathEscape", r#""foo/bar é""#, r#""foo%2Fbar%20%C3%A9""#),
            ("PathUnescape", r#""a%2Fb+c""#, r#""a/b+c""#),
            ("PathUnescape", r#""%zz""#, "! invalid URL escape \"%zz\""),
            ("QueryEscape", r#""f%o &""#, r#""f%25o+%26""#),
            ("QueryUnescape", r#""f%25o+x""#, r#""f%o x""#),
            ("URL", r#""/foo/bar""#, "true"),
            ("URL", r#""%""#, "! parse \"%\": invalid URL escape \"%\""),
            ("URL", r#"":x""#, "! parse \":x\": missing protocol scheme"),
            ("URL", r#""a:b/c""#, "true"),
            (
                "URL",
                r#""1a:b""#,
                "! parse \"1a:b\": first path segment in URL cannot contain colon",
            ),
            ("URL", r#""http://[::1]:80/x?y#z""#, "true"),
            ("URL", r#""http://a:b/""#, "! parse \"http://a:b/\": invalid port \":b\" after host"),
            ("AbsURL", r#""https://foo.com/bar""#, "true"),
            ("AbsURL", r#""/foo""#, "! URL is not absolute"),
        ],
    );
}

#[test]
fn hashes() {
    let hex = |v: Result<Value, BuiltinError>| super::hex::encode(v.unwrap().as_bytes().unwrap());
    let data = [Value::from("hash me")];
    assert_eq!(hex(call("crypto/md5", "Sum", &data)), "17b31dce96b9d6c6d0a6ba95f47796fb");
    assert_eq!(hex(call("crypto/sha1", "Sum", &data)), "43f932e4f7c6ecd136a695b7008694bb69d517bd");
    assert_eq!(
        hex(call("crypto/sha256", "Sum256", &data)),
        "eb201af5aaf0d60629d3d2a61e466cfc0fedb517add831ecac5235e1daa963d6"
    );
    let key: Vec<u8> = (0x30..=0x43).collect();
    let args = [Value::from("SHA1"), Value::Bytes(key[..].into()), Value::from("Sample #2")];
    assert_eq!(hex(call("crypto/hmac", "Sign", &args)), "0922d3405faa3d194f82a45830737d5cc6c75d24");
    let args = [Value::from("CRC"), Value::from(""), Value::from("")];
    assert_eq!(
        call("crypto/hmac", "Sign", &args),
        Err(BuiltinError::new("unsupported hash function"))
    );
}

#[test]
fn uuids() {
    check(
        "uuid",
        &[
            (
                "SHA1",
                r#""6ba7b810-9dad-11d1-80b4-00c04fd430c8", "cuelang.org""#,
                r#""052ef62d-7223-58b6-a551-c1deee46d401""#,
            ),
            (
                "Parse",
                r#""{123E4567-e89b-12d3-a456-426655440000}""#,
                r#""123e4567-e89b-12d3-a456-426655440000""#,
            ),
            (
                "Parse",
                r#""urn:uuid:123e4567-e89b-12d3-a456-426655440000""#,
                r#""123e4567-e89b-12d3-a456-426655440000""#,
            ),
            ("Parse", r#""052ef62d-7223-58b6-a551-c1deee46d4011""#, "! invalid UUID length: 37"),
            ("Parse", r#""052ef62d_7223_58b6_a551_c1deee46d401""#, "! invalid UUID format"),
            (
                "FromInt",
                "6889978707771015349041200318093120513",
                r#""052ef62d-7223-58b6-a551-c1deee46d401""#,
            ),
            ("Version", r#""052ef62d-7223-58b6-a551-c1deee46d401""#, "5"),
            ("Variant", r#""052ef62d-7223-58b6-a551-c1deee46d401""#, "1"),
            ("Valid", r#""052EF62D-7223-58b6-a551-c1deee46d401""#, "true"),
            ("Valid", r#""{052ef62d-7223-58b6-a551-c1deee46d401}""#, "true"),
            ("Valid", r#""x""#, "! invalid UUID \"x\""),
            (
                "ToInt",
                r#""052ef62d-7223-58b6-a551-c1deee46d401""#,
                "93651793875903522077150095950593860979557386807737776869062002310283964632724204171313",
            ),
        ],
    );
}

#[test]
fn text_formats() {
    check(
        "encoding/csv",
        &[
            (
                "Encode",
                r#"[[1,2.5,true],["a,b","c\"d"," e",""]]"#,
                r#""1,2.5,true\n\"a,b\",\"c\"\"d\",\" e\",\n""#,
            ),
            ("Encode", "[1]", "! cannot use value 1 (type int) as list"),
            ("Decode", r#""a,b\r\n\n\"c\"\"\n,\",d\n""#, r#"[["a","b"],["c\"\n,","d"]]"#),
            ("Decode", r#""a,\nb,""#, r#"[["a",""],["b",""]]"#),
            ("Decode", r#""""#, "[]"),
            ("Decode", r#""a,b\nc""#, "! record on line 2: wrong number of fields"),
            (
                "Decode",
                r#""a\"b""#,
                "! parse error on line 1, column 2: bare \" in non-quoted field",
            ),
            (
                "Decode",
                r#""\"a""#,
                "! parse error on line 1, column 3: extraneous or missing \" in quoted-field",
            ),
        ],
    );
    check(
        "text/tabwriter",
        &[
            ("Write", r#""a\tb\tc\naaa\tbb\tvv""#, r#""a   b  c\naaa bb vv""#),
            ("Write", r#"["a\tb\tc","aaa\tbb\tvv"]"#, r#""a   b  c\naaa bb vv\n""#),
            ("Write", r#""a\tb\nplain\nlonger\tb""#, r#""a b\nplain\nlonger b""#),
            ("Write", r#""x\t\ty""#, r#""x  y""#),
            ("Write", "1", "! unsupported type"),
        ],
    );
    check(
        "html",
        &[
            (
                "Escape",
                r#""<a href='x'>\"&\"</a>""#,
                r#""&lt;a href=&#39;x&#39;&gt;&#34;&amp;&#34;&lt;/a&gt;""#,
            ),
            (
                "Unescape",
                r#""&lt;&#65;&#x42;&amp;&eacute;&notin;&notit;&copy &x;&""#,
                r#""<AB&é∉¬it;© &x;&""#,
            ),
            ("Unescape", r#""&#128;&#0;&#xd800;&#99999999999;""#, "\"€\u{fffd}\u{fffd}\u{fffd}\""),
        ],
    );
}

/// No function panics or hangs, whatever it is given.
#[test]
fn any_argument_is_survived() {
    let big = Value::Number(crate::value::Number::int(
        crate::decimal::Decimal::parse("123456789012345678901234567890").unwrap(),
    ));
    let probes: Vec<Value> = [
        "null",
        "true",
        "\"\"",
        "\"a\"",
        "\"é%\\u0000[\"",
        "0",
        "-1",
        "1",
        "9223372036854775807",
        "-9223372036854775808",
        "0.5",
        "1e400",
        "1e99999",
        "-1e-99999",
        "[]",
        "[1,2]",
        "[\"a\"]",
        "[[1],{}]",
        "{}",
        "{\"x\":1}",
    ]
    .iter()
    .flat_map(|text| json(text))
    .chain([Value::Bytes([0xff, 0][..].into()), big])
    .collect();
    let limits = Limits { time: None, ..Limits::default() };
    for (path, members) in super::TABLE {
        for member in *members {
            let Item::Func(builtin) = &member.item else { continue };
            let Run::Pure(run) = builtin.run else { continue };
            // All combinations of what the kinds admit, for up to three parameters.
            let mut calls: Vec<Vec<Value>> = vec![Vec::new()];
            for param in builtin.params.iter().take(3) {
                let fits: Vec<_> =
                    probes.iter().filter(|p| param.kind.intersects(p.kind())).collect();
                calls = calls
                    .iter()
                    .flat_map(|c| fits.iter().map(|p| [&c[..], &[Value::clone(p)]].concat()))
                    .collect();
            }
            for mut args in calls {
                args.resize(builtin.params.len(), Value::from(2));
                if let Ok(v) = run(&args, &mut Budget::new(&limits)) {
                    assert!(builtin.result.contains(v.kind()), "{path}.{}: {v:?}", member.name);
                }
            }
            let _ = run(&[], &mut Budget::new(&limits));
        }
    }
}

/// Every function pays for what it is given, whatever it does with it and whether it fails.
#[test]
fn work_is_counted_by_the_size_of_the_arguments() {
    const SIZE: u64 = 100_000;
    let digits = "7".repeat(5000);
    let prelude = format!(
        "import \"list\"\n_s: 50000*\"ab\", _n: {digits}, _m: {{a: _s}}\n_l: [for i in list.Range(0, 100, 1) {{1000*\"a\"}}]\n_d: [for i in list.Range(0, 100, 1) {{_n}}]\n"
    );
    let spent = |package: &str, expr: &str| {
        let import = if package.is_empty() || package == "list" {
            String::new()
        } else {
            format!("import \"{package}\"\n")
        };
        let text = format!("{import}{prelude}x: {expr}\n");
        let program = crate::Program::compile("in.cue", &text, &crate::Packages::std());
        let program = program.unwrap_or_else(|errors| panic!("{text}: {errors}"));
        let limits = Limits { time: None, bytes: 1 << 30, ..Limits::default() };
        let mut evaluation = program.evaluate(&[], &limits);
        let root = evaluation.root();
        if let Some(x) = evaluation.field(root, "x") {
            let _ = evaluation.export(x);
        }
        evaluation.steps()
    };
    let mut seen = 0;
    let mut alone = rustc_hash::FxHashMap::default();
    for (path, members) in super::TABLE {
        let short = path.rsplit('/').next().unwrap();
        for member in *members {
            let Item::Func(builtin) = &member.item else { continue };
            let arg = |param: &Param| {
                if param.kind.intersects(Kind::STRING) {
                    ("_s", SIZE / 64)
                } else if param.kind.intersects(Kind::NUMBER) {
                    // The square of the words: digits are converted and multiplied.
                    ("_n", 400)
                } else if param.kind.intersects(Kind::LIST) {
                    (if param.elem == Kind::NUMBER { "_d" } else { "_l" }, SIZE / 64)
                } else if param.kind.intersects(Kind::STRUCT) {
                    ("_m", SIZE / 64)
                } else {
                    ("true", 0)
                }
            };
            let args: Vec<_> = builtin.params.iter().map(arg).collect();
            let names: Vec<_> = args.iter().map(|(name, _)| *name).collect();
            // The others count what they look at, element by element.
            if !matches!(builtin.run, Run::Pure(_)) {
                continue;
            }
            let least = args.iter().map(|(_, steps)| *steps).max().unwrap_or(0);
            if least == 0 {
                continue;
            }
            let there: Vec<_> = names.iter().map(|name| format!("{name} != _|_")).collect();
            let there = there.join(", ");
            let without =
                *alone.entry(there).or_insert_with_key(|there| spent("", &format!("[{there}]")));
            let with = spent(path, &format!("{short}.{}({})", member.name, names.join(", ")));
            assert!(
                with >= without + least,
                "{path}.{}: {with} steps, {without} for the arguments alone",
                member.name
            );
            seen += 1;
        }
    }
    assert!(seen > 150, "{seen}");
}

#[test]
fn numbers_are_paid_for_by_their_digits() {
    let spent = |text: &str| {
        let program = crate::Program::compile("in.cue", text, &crate::Packages::std()).unwrap();
        let limits = Limits { time: None, ..Limits::default() };
        let mut evaluation = program.evaluate(&[], &limits);
        let root = evaluation.root();
        let _ = evaluation.export(root);
        evaluation.steps()
    };
    let (short, long) = ("7".repeat(30), "7".repeat(9000));
    for expr in [
        "_n * _n",
        "_n / 3",
        "3 / _n",
        "_n + 1",
        "_n - 0.5",
        "_n div 3",
        "_n mod 7",
        "quo(_n, 3)",
        "rem(_n, 3)",
        "_n < _m",
        "_n == _m",
        "\"\\(_n)\"",
        "_n",
        "[_n]",
        "<_m & _n",
    ] {
        let [cheap, dear] =
            [&short, &long].map(|digits| spent(&format!("_n: {digits}, _m: {digits}1\nx: {expr}")));
        assert!(cheap < 60, "{expr}: {cheap}");
        assert!(dear > cheap + 400, "{expr}: {cheap} {dear}");
    }
    // An exponent stands for zeros where they are written out.
    assert!(spent("x: (1e30 * 1e30 * 1e9000 + 0) div 7") < 60, "a float is refused first");
    assert!(spent("import \"math\"\nx: math.Floor(1e90000) div 7") > 100_000);
}
