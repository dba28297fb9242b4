//! Numbers. Integer functions take anything that can be one and wrap around; those of floats compute with decimals, so
//! that 0.1 and 0.2 are 0.3.

use gotemplate::{Args, Failure, Function, List, Type, Value};
use num_bigint::{BigInt, Sign};
use vela_gocompat::strconv;

use super::convert::{strval, to_float, to_int};
use super::table::{ANY, Body, Context, FLOAT, INT, Result, STRING, function, text, variadic};
use crate::engine::state::State;

pub(super) static TABLE: &[Function<State>] = &[
    function("int", &[ANY], |_, args| Ok(Value::int(to_int(args.get(0))))),
    function("int64", &[ANY], |_, args| Ok(Value::int64(to_int(args.get(0))))),
    function("float64", &[ANY], |_, args| Ok(to_float(args.get(0)).into())),
    function("atoi", &[STRING], |_, args| {
        Ok(Value::int(strconv::atoi(&args.text(0)).unwrap_or_default()))
    }),
    function("toDecimal", &[ANY], |call, args| {
        let text = strval(call.host(), args.get(0))?;
        let octal = strconv::parse_int(&text.to_str_lossy(), 8, 64);
        Ok(Value::int64(octal.unwrap_or_default()))
    }),
    variadic("add", &[], ANY, |_, args| Ok(folded(0, args.all(), i64::wrapping_add))),
    function("add1", &[ANY], |_, args| Ok(Value::int64(to_int(args.get(0)).wrapping_add(1)))),
    function("sub", &[ANY, ANY], |_, args| {
        Ok(Value::int64(to_int(args.get(0)).wrapping_sub(to_int(args.get(1)))))
    }),
    variadic("mul", &[ANY], ANY, |_, args| {
        Ok(folded(to_int(args.get(0)), args.from(1), i64::wrapping_mul))
    }),
    function("div", &[ANY, ANY], |_, args| divided(args, i64::wrapping_div)),
    function("mod", &[ANY, ANY], |_, args| divided(args, i64::wrapping_rem)),
    variadic("max", &[ANY], ANY, MAX),
    variadic("biggest", &[ANY], ANY, MAX),
    variadic("min", &[ANY], ANY, |_, args| Ok(folded(to_int(args.get(0)), args.from(1), i64::min))),
    // The zero with a sign is the smaller one.
    variadic("maxf", &[ANY], ANY, |_, args| {
        Ok(extreme(args, |a, b| a > b || (a == b && b.is_sign_negative())))
    }),
    variadic("minf", &[ANY], ANY, |_, args| {
        Ok(extreme(args, |a, b| a < b || (a == b && a.is_sign_negative())))
    }),
    variadic("addf", &[], ANY, |call, args| decimal(call, 0.0, args.all(), |a, b| Ok(a.add(&b)))),
    function("add1f", &[ANY], |call, args| decimal(call, 1.0, args.all(), |a, b| Ok(a.add(&b)))),
    variadic("subf", &[ANY], ANY, |call, args| {
        decimal(call, to_float(args.get(0)), args.from(1), |a, b| Ok(a.add(&b.negated())))
    }),
    variadic("mulf", &[ANY], ANY, |call, args| {
        decimal(call, to_float(args.get(0)), args.from(1), |a, b| Ok(a.multiplied(&b)))
    }),
    variadic("divf", &[ANY], ANY, |call, args| {
        decimal(call, to_float(args.get(0)), args.from(1), |a, b| a.divided(&b))
    }),
    function("ceil", &[ANY], |_, args| Ok(to_float(args.get(0)).ceil().into())),
    function("floor", &[ANY], |_, args| Ok(to_float(args.get(0)).floor().into())),
    variadic("round", &[ANY, INT], FLOAT, |_, args| {
        let up_from = if args.all().len() > 2 { args.float(2) } else { 0.5 };
        let scale = 10_f64.powf(args.int(1) as f64);
        let scaled = scale * to_float(args.get(0));
        let up = scaled.fract() >= up_from;
        Ok((if up { scaled.ceil() } else { scaled.floor() } / scale).into())
    }),
    function("until", &[INT], |call, args| {
        let end = args.int(0);
        let list = steps(call, 0, end, if end < 0 { -1 } else { 1 })?;
        Ok(ints(list))
    }),
    function("untilStep", &[INT, INT, INT], |call, args| {
        Ok(ints(steps(call, args.int(0), args.int(1), args.int(2))?))
    }),
    variadic("seq", &[], INT, sequence),
    function("randInt", &[INT, INT], |call, args| {
        let (low, high) = (args.int(0), args.int(1));
        let span = u64::try_from(i128::from(high) - i128::from(low)).unwrap_or(0);
        if span == 0 {
            return Err(Failure::text("invalid argument to Intn"));
        }
        let random = super::crypto::below(call.host(), span);
        Ok(Value::int(low.wrapping_add_unsigned(random)))
    }),
];

const MAX: Body = |_, args| Ok(folded(to_int(args.get(0)), args.from(1), i64::max));

fn folded(start: i64, values: &[Value], operation: fn(i64, i64) -> i64) -> Value {
    Value::int64(values.iter().map(to_int).fold(start, operation))
}

fn divided(args: Args<'_>, operation: fn(i64, i64) -> i64) -> Result {
    match to_int(args.get(1)) {
        0 => Err(Failure::text("runtime error: integer divide by zero")),
        divisor => Ok(Value::int64(operation(to_int(args.get(0)), divisor))),
    }
}

fn extreme(args: Args<'_>, wins: fn(f64, f64) -> bool) -> Value {
    let start = to_float(args.get(0));
    let found = args.from(1).iter().map(to_float);
    let better = |best: f64, next: f64| {
        let is_next = next.is_nan() || (!best.is_nan() && wins(next, best));
        if is_next { next } else { best }
    };
    found.fold(start, better).into()
}

/// The numbers from `start` up or down to `end`, without it.
fn steps(call: &mut Context<'_>, start: i64, end: i64, step: i64) -> Result<Vec<i64>> {
    let distance = i128::from(end) - i128::from(start);
    if step == 0 || distance == 0 || (distance < 0) != (step < 0) {
        return Ok(Vec::new());
    }
    let step = i128::from(step);
    let count = usize::try_from((distance.abs() - 1) / step.abs() + 1).unwrap_or(usize::MAX);
    call.host().elements(count)?;
    let number = |at: usize| i64::try_from(i128::from(start) + at as i128 * step).unwrap_or(end);
    Ok((0..count).map(number).collect())
}

fn ints(numbers: Vec<i64>) -> Value {
    List::of(&Type::INT, numbers.into_iter().map(Value::int).collect()).into()
}

/// `seq END`, `seq START END`, `seq START STEP END`: numbers as a text, with the last one.
fn sequence(call: &mut Context<'_>, args: Args<'_>) -> Result {
    let (start, step, end) = match args.all() {
        [_] => (1, None, args.int(0)),
        [_, _] => (args.int(0), None, args.int(1)),
        [_, _, _] => (args.int(0), Some(args.int(1)), args.int(2)),
        _ => return Ok(Value::from("")),
    };
    let direction = if end < start { -1 } else { 1 };
    if direction < 0 && step.is_some_and(|step| step > 0) {
        return Ok(Value::from(""));
    }
    let beyond = end.saturating_add(direction);
    let numbers = steps(call, start, beyond, step.unwrap_or(direction))?;
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
    text(call, numbers.join(" "))
}

/// Computes with the decimals that the floats print as.
fn decimal(
    call: &mut Context<'_>,
    start: f64,
    values: &[Value],
    operation: impl Fn(Decimal, Decimal) -> Result<Decimal>,
) -> Result {
    let mut result = Decimal::of(start)?;
    for value in values {
        let next = Decimal::of(to_float(value))?;
        call.steps(1 + result.digits.bits() / 64)?;
        result = operation(result, next)?;
    }
    Ok(result.to_float().into())
}

/// A number with a power of ten.
struct Decimal {
    digits: BigInt,
    exponent: i32,
}

/// Digits after the point that a division keeps.
const DIVISION_DIGITS: i32 = 16;

impl Decimal {
    fn of(float: f64) -> Result<Self> {
        if !float.is_finite() {
            let name = strconv::format_float(float, 'g', -1, 64);
            return Err(Failure::text(format!("Cannot create a Decimal from {name}")));
        }
        let text = strconv::format_float(float, 'e', -1, 64);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: BigInt = format!("{whole}{fraction}").parse().unwrap_or_default();
        let exponent: i32 = exponent.parse().unwrap_or_default();
        let after = i32::try_from(fraction.len()).unwrap_or_default();
        Ok(Self { digits, exponent: exponent - after })
    }

    /// The digits at a lower exponent.
    fn at(&self, exponent: i32) -> BigInt {
        &self.digits * ten_to(self.exponent - exponent)
    }

    fn add(&self, other: &Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        Self { digits: self.at(exponent) + other.at(exponent), exponent }
    }

    fn negated(&self) -> Self {
        Self { digits: -&self.digits, exponent: self.exponent }
    }

    fn multiplied(&self, other: &Self) -> Self {
        Self { digits: &self.digits * &other.digits, exponent: self.exponent + other.exponent }
    }

    /// Rounded to [`DIVISION_DIGITS`], half away from zero.
    fn divided(&self, other: &Self) -> Result<Self> {
        if other.digits.sign() == Sign::NoSign {
            return Err(Failure::text("decimal division by 0"));
        }
        let shift = self.exponent - other.exponent + DIVISION_DIGITS;
        let (top, bottom) = if shift >= 0 {
            (&self.digits * ten_to(shift), other.digits.clone())
        } else {
            (self.digits.clone(), &other.digits * ten_to(-shift))
        };
        let quotient = &top / &bottom;
        let rest: BigInt = &top - &quotient * &bottom;
        let twice = BigInt::from(rest.magnitude() * 2_u32);
        let away = twice >= BigInt::from(bottom.magnitude().clone());
        let negative = (top.sign() == Sign::Minus) != (bottom.sign() == Sign::Minus);
        let digits = match (away, negative) {
            (false, _) => quotient,
            (true, false) => quotient + 1,
            (true, true) => quotient - 1,
        };
        Ok(Self { digits, exponent: -DIVISION_DIGITS })
    }

    fn to_float(&self) -> f64 {
        format!("{}e{}", self.digits, self.exponent).parse().unwrap_or_default()
    }
}

fn ten_to(power: i32) -> BigInt {
    BigInt::from(10).pow(u32::try_from(power).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_compute_as_people_do() {
        let of = |float: f64| Decimal::of(float).unwrap();
        assert_eq!(of(0.1).add(&of(0.2)).to_float(), 0.3);
        assert_eq!(of(1.1).multiplied(&of(1.1)).to_float(), 1.21);
        assert_eq!(of(2.0).divided(&of(3.0)).unwrap().to_float(), 0.666_666_666_666_666_7);
        assert_eq!(of(-1.0).divided(&of(3e20)).unwrap().to_float(), 0.0);
        assert_eq!(of(1e300).add(&of(1e-300)).to_float(), 1e300);
        assert!(of(1.0).divided(&of(0.0)).is_err());
        assert!(Decimal::of(f64::NAN).is_err());
    }
}
