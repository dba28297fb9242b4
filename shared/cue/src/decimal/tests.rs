//! Tables after the General Decimal Arithmetic specification and apd's rules.

use super::*;

fn d(text: &str) -> Decimal {
    Decimal::parse(text).unwrap()
}

#[test]
fn scientific_text() {
    // The table of the General Decimal Arithmetic specification, section "to-scientific-string".
    for (coefficient, exponent, text) in [
        (123, 0, "123"),
        (-123, 0, "-123"),
        (123, 1, "1.23E+3"),
        (123, 3, "1.23E+5"),
        (123, -1, "12.3"),
        (123, -5, "0.00123"),
        (123, -10, "1.23E-8"),
        (-123, -12, "-1.23E-10"),
        (0, 0, "0"),
        (0, -2, "0.00"),
        (0, 2, "0E+2"),
        (5, -6, "0.000005"),
        (50, -7, "0.0000050"),
        (5, -7, "5E-7"),
        (0, -6, "0.000000"),
        (0, -10, "0.0000000000"),
    ] {
        let n = Decimal::new(BigInt::from(coefficient), exponent).unwrap();
        assert_eq!(n.to_string(), text);
        assert_eq!(d(text).exponent(), exponent, "{text}");
    }
}

#[test]
fn sums() {
    for (a, b, sum) in [
        ("12", "7.00", "19.00"),
        ("1E+2", "1E+4", "1.01E+4"),
        ("1.3", "1.07", "2.37"),
        ("0.1", "0.2", "0.3"),
        ("9223372036854775807", "1", "9223372036854775808"),
        ("-9223372036854775808", "-1", "-9223372036854775809"),
        ("9999999999999999999999999999999999", "1", "1.000000000000000000000000000000000E+34"),
        ("1E+50", "1", "1.000000000000000000000000000000000E+50"),
        ("1E+50", "-1", "1.000000000000000000000000000000000E+50"),
        ("1E+99999", "1E-99999", "1.000000000000000000000000000000000E+99999"),
        ("0", "1E+3", "1000"),
        ("0.00", "1", "1.00"),
        ("5", "-5.0", "0.0"),
        ("12345678901234567890123456789012345", "0", "1.234567890123456789012345678901235E+34"),
    ] {
        assert_eq!(d(a).add(&d(b)).unwrap().to_string(), sum, "{a} + {b}");
        assert_eq!(d(b).add(&d(a)).unwrap().to_string(), sum, "{b} + {a}");
    }
}

#[test]
fn sticky_digit_decides_halves() {
    let half = d("10000000000000000000000000000000005E-1");
    assert_eq!(half.add(&d("-1E-90")).unwrap().to_string(), "1000000000000000000000000000000000");
    assert_eq!(half.add(&d("1E-90")).unwrap().to_string(), "1000000000000000000000000000000001");
}

#[test]
fn products() {
    for (a, b, product) in [
        ("1.20", "3", "3.60"),
        ("7", "3", "21"),
        ("0.9", "0.8", "0.72"),
        ("0.9", "-0", "0.0"),
        ("654321", "654321", "428135971041"),
        ("10000000000", "10000000000", "100000000000000000000"),
        ("340282366920938463463374607431768211456", "2", "6.805647338418769269267492148635364E+38"),
        ("3037000500", "3037000500", "9223372037000250000"),
    ] {
        assert_eq!(d(a).mul(&d(b)).unwrap().to_string(), product, "{a} * {b}");
    }
}

#[test]
fn quotients() {
    for (a, b, quotient) in [
        ("1", "3", "0.3333333333333333333333333333333333"),
        ("2", "3", "0.6666666666666666666666666666666667"),
        ("5", "2", "2.5"),
        ("1", "10", "0.1"),
        ("12", "12", "1.0"),
        ("8.00", "2", "4.0"),
        ("2.400", "2.0", "1.2"),
        ("1000", "100", "10"),
        ("1000", "1", "1.0E+3"),
        ("1000000000000", "2", "5.0E+11"),
        ("2.40E+6", "2", "1.20E+6"),
        ("0", "7", "0.0"),
        ("-1", "8", "-0.125"),
    ] {
        assert_eq!(d(a).quo(&d(b)).unwrap().to_string(), quotient, "{a} / {b}");
    }
    assert_eq!(d("1").quo(&d("0")), Err(DecimalError::DivisionByZero));
}

#[test]
fn integer_division() {
    for (a, b, div, modulo, quo, rem) in [
        (5, 3, "1", "2", "1", "2"),
        (-5, 3, "-2", "1", "-1", "-2"),
        (5, -3, "-1", "2", "-1", "2"),
        (-5, -3, "2", "1", "1", "-2"),
        (i64::MIN, -1, "9223372036854775808", "0", "9223372036854775808", "0"),
    ] {
        let (a, b) = (Decimal::from(a), Decimal::from(b));
        assert_eq!(a.int_div(&b).unwrap().to_string(), div);
        assert_eq!(a.int_mod(&b).unwrap().to_string(), modulo);
        assert_eq!(a.int_quo(&b).unwrap().to_string(), quo);
        assert_eq!(a.int_rem(&b).unwrap().to_string(), rem);
    }
    assert_eq!(d("1").int_mod(&d("0.0")), Err(DecimalError::DivisionByZero));
    assert_eq!(d("1.5").int_quo(&d("1")), Err(DecimalError::NotInteger));
}

#[test]
fn order_and_equality_are_numeric() {
    assert_eq!(d("1"), d("1.00"));
    assert_eq!(d("1E+2"), d("100"));
    assert_eq!(d("0"), d("0E+9"));
    assert!(d("1E+100000") > d("9E+99999"));
    assert!(d("-1E+100000") < d("1E-100000"));
    assert!(d("-2") < d("-1.5"));
    assert!(d("18446744073709551616") > d("18446744073709551615.5"));
    let hash = |n: &Decimal| {
        let mut state = std::hash::DefaultHasher::new();
        n.hash(&mut state);
        state.finish()
    };
    assert_eq!(hash(&d("100")), hash(&d("1.00E+2")));
}

#[test]
fn literals() {
    for (text, value, int) in [
        ("0", "0", true),
        ("+1", "1", true),
        ("-1", "-1", true),
        ("1.", "1", false),
        (".0", "0.0", false),
        ("012.34", "12.34", false),
        (".01e2", "1", false),
        ("1_000", "1000", true),
        ("1K", "1000", true),
        (".5K", "500", true),
        ("1Mi", "1048576", true),
        ("1.5Mi", "1572864", true),
        ("1.3G", "1300000000", true),
        ("1.3e20", "1.3E+20", false),
        ("1E2", "1E+2", false),
        ("0xABCD", "43981", true),
        ("-0xAB_CD", "-43981", true),
        ("0o17", "15", true),
        ("0b11001000", "200", true),
        (
            "170_141_183_460_469_231_731_687_303_715_884_105_728",
            "170141183460469231731687303715884105728",
            true,
        ),
    ] {
        let (n, is_int) = Decimal::parse_literal(text).unwrap();
        assert_eq!((n.to_string().as_str(), is_int), (value, int), "{text}");
    }
    for text in [
        "", ".", "0b", "0_", "0128", "1__0", "1_", "23.34e", "0x", "0b2", "1e+", "1e5K", "K", "a",
        "1._5", "1_.5", "1.5.2",
    ] {
        assert_eq!(Decimal::parse_literal(text), Err(DecimalError::Syntax), "{text}");
    }
    assert_eq!(Decimal::parse_literal("1.00001K"), Err(DecimalError::NotInteger));
}

#[test]
fn limits_are_errors_not_allocations() {
    for text in ["1e999999999", "1e-999999999", "1e100001", "1e99999999999999999999999"] {
        assert_eq!(Decimal::parse_literal(text), Err(DecimalError::ExponentOutOfRange), "{text}");
    }
    assert_eq!(d("0e999999999"), Decimal::ZERO);
    let long = "9".repeat(MAX_DIGITS + 1);
    assert_eq!(Decimal::parse_literal(&long), Err(DecimalError::TooManyDigits));
    let big = d("1E+90000");
    assert_eq!(big.mul(&big), Err(DecimalError::ExponentOutOfRange));
    assert_eq!(Decimal::ONE.quo(&big).unwrap().quo(&big), Err(DecimalError::ExponentOutOfRange));
}

#[test]
fn conversions() {
    assert_eq!(d("1E+2").to_i64(), Some(100));
    assert_eq!(d("1.0").to_i64(), Some(1));
    assert_eq!(d("1.5").to_i64(), None);
    assert_eq!(d("9223372036854775808").to_i64(), None);
    assert_eq!(d("1E-90000").to_bigint(), None);
    assert_eq!(d("1E+400").to_f64(), f64::INFINITY);
    assert!((d("0.1").to_f64() - 0.1).abs() < f64::EPSILON);
    assert_eq!(Decimal::from_f64(0.1).unwrap().to_string(), "0.1");
    assert_eq!(Decimal::from_f64(1e21).unwrap().to_string(), "1E+21");
    assert!(Decimal::from_f64(f64::NAN).is_none());
    assert_eq!(d("1.5E+3").to_plain(), "1500");
    assert_eq!(d("-1.5E-3").to_plain(), "-0.0015");
}

#[test]
fn integral_rounding() {
    use Rounding::{Ceil, Floor, HalfEven, HalfUp, Trunc};
    for (value, mode, want) in [
        ("2.5", Floor, "2"),
        ("-2.5", Floor, "-3"),
        ("2.5", Ceil, "3"),
        ("-2.5", Ceil, "-2"),
        ("-2.7", Trunc, "-2"),
        ("2.5", HalfUp, "3"),
        ("-2.5", HalfUp, "-3"),
        ("2.5", HalfEven, "2"),
        ("3.5", HalfEven, "4"),
        ("0.05", HalfUp, "0"),
        ("0.5", HalfUp, "1"),
        ("0.0001", Ceil, "1"),
        ("-1E-90000", Floor, "-1"),
        ("7", Floor, "7"),
    ] {
        assert_eq!(d(value).to_integral(mode).to_string(), want, "{value} {mode:?}");
    }
}

#[test]
fn digit_counts() {
    for n in 1..300_u32 {
        let power = pow10(n);
        assert_eq!(digits_big(&power), n + 1);
        assert_eq!(digits_big(&(power - 1)), n);
    }
}
