//! Package `math`: decimals where CUE has decimals, 64-bit floats where it has floats.

use num_bigint::{BigInt, Sign};

use super::args::{
    Out, big, bigint, constant, decimal, fail, float, float_value, func, int, int_of, number,
};
use super::{BuiltinError, Member, Param};
use crate::decimal::{Decimal, Rounding};
use crate::kind::Kind;
use crate::limits::Budget;
use crate::value::Value;

const N: Param = Param::NUMBER;
const I: Param = Param::INT;
const ONE: &[Param] = &[N];
const TWO: &[Param] = &[N, N];

/// A member computed on 64-bit floats.
macro_rules! float {
    ($name:literal, $function:expr) => {
        func($name, ONE, Kind::NUMBER, |a, _| float_value($function(float(a, 0)?)))
    };
}

pub(super) static PACKAGE: &[Member] = &[
    constant("MaxExp", "2147483647"),
    constant("MinExp", "-2147483648"),
    constant("MaxPrec", "4294967295"),
    constant("ToNearestEven", "0"),
    constant("ToNearestAway", "1"),
    constant("ToZero", "2"),
    constant("AwayFromZero", "3"),
    constant("ToNegativeInf", "4"),
    constant("ToPositiveInf", "5"),
    constant("Below", "-1"),
    constant("Exact", "0"),
    constant("Above", "1"),
    constant("MaxBase", "62"),
    constant("E", "2.71828182845904523536028747135266249775724709369995957496696763"),
    constant("Pi", "3.14159265358979323846264338327950288419716939937510582097494459"),
    constant("Phi", "1.61803398874989484820458683436563811772030917980576286213544861"),
    constant("Sqrt2", "1.41421356237309504880168872420969807856967187537694807317667974"),
    constant("SqrtE", "1.64872127070012814684865078781416357165377610071014801157507931"),
    constant("SqrtPi", "1.77245385090551602729816748334114518279754945612238712821380779"),
    constant("SqrtPhi", "1.27201964951406896425242246173749149171560804184009624861664038"),
    constant("Ln2", "0.693147180559945309417232121458176568075500134360255254120680009"),
    constant("Log2E", "1.442695040888963407359924681001892137426645954152985934135449408"),
    constant("Ln10", "2.3025850929940456840179914546843642076011014886287729760333278"),
    constant("Log10E", "0.43429448190325182765112891891660508229439700580366656611445378"),
    func("Jacobi", &[I, I], Kind::INT, jacobi),
    func("Floor", ONE, Kind::INT, |a, _| whole(a, Rounding::Floor)),
    func("Ceil", ONE, Kind::INT, |a, _| whole(a, Rounding::Ceil)),
    func("Trunc", ONE, Kind::INT, |a, _| whole(a, Rounding::Trunc)),
    func("Round", ONE, Kind::INT, |a, _| whole(a, Rounding::HalfUp)),
    func("RoundToEven", ONE, Kind::INT, |a, _| whole(a, Rounding::HalfEven)),
    func("MultipleOf", TWO, Kind::BOOL, multiple_of),
    func("Abs", ONE, Kind::NUMBER, |a, _| Ok(number(decimal(a, 0)?.abs().rounded()?))),
    func("Copysign", TWO, Kind::NUMBER, |a, _| {
        let (x, y) = (decimal(a, 0)?.abs(), decimal(a, 1)?);
        Ok(number(if y.is_negative() { x.neg() } else { x }))
    }),
    func("Dim", TWO, Kind::NUMBER, |a, _| {
        let difference = decimal(a, 0)?.sub(&decimal(a, 1)?)?;
        Ok(number(if difference.is_negative() { Decimal::ZERO } else { difference }))
    }),
    func("Signbit", ONE, Kind::BOOL, |a, _| Ok(decimal(a, 0)?.is_negative().into())),
    func("Cbrt", ONE, Kind::NUMBER, |a, b| slow(b, || decimal(a, 0)?.cbrt().map_err(Into::into))),
    func("Exp", ONE, Kind::NUMBER, |a, b| slow(b, || decimal(a, 0)?.exp().map_err(Into::into))),
    func("Exp2", ONE, Kind::NUMBER, |a, b| {
        slow(b, || Decimal::from(2_i64).pow(&decimal(a, 0)?).map_err(Into::into))
    }),
    func("Log", ONE, Kind::NUMBER, |a, b| slow(b, || decimal(a, 0)?.ln().map_err(Into::into))),
    func("Log10", ONE, Kind::NUMBER, |a, b| slow(b, || decimal(a, 0)?.log10().map_err(Into::into))),
    func("Log2", ONE, Kind::NUMBER, |a, b| {
        slow(b, || Ok(decimal(a, 0)?.ln()?.quo(&Decimal::from(2_i64).ln()?)?))
    }),
    func("Pow", TWO, Kind::NUMBER, |a, b| {
        slow(b, || decimal(a, 0)?.pow(&decimal(a, 1)?).map_err(Into::into))
    }),
    func("Pow10", &[I], Kind::NUMBER, |a, _| {
        let n = int_of(a, 0, "int32", i64::from(i32::MIN), i64::from(i32::MAX))?;
        Ok(number(Decimal::new(BigInt::from(1), n as i32)?))
    }),
    float!("Acosh", libm::acosh),
    float!("Asin", libm::asin),
    float!("Acos", libm::acos),
    float!("Asinh", libm::asinh),
    float!("Atan", libm::atan),
    float!("Atanh", libm::atanh),
    float!("Erf", libm::erf),
    float!("Erfc", libm::erfc),
    float!("Erfinv", erfinv),
    float!("Erfcinv", |x: f64| erfinv(1.0 - x)),
    float!("Expm1", libm::expm1),
    float!("Gamma", libm::tgamma),
    float!("J0", libm::j0),
    float!("Y0", libm::y0),
    float!("J1", libm::j1),
    float!("Y1", libm::y1),
    float!("Log1p", libm::log1p),
    float!("Logb", |x: f64| f64::from(libm::ilogb(x))),
    float!("Cos", libm::cos),
    float!("Sin", libm::sin),
    float!("Sinh", libm::sinh),
    float!("Cosh", libm::cosh),
    float!("Sqrt", libm::sqrt),
    float!("Tan", libm::tan),
    float!("Tanh", libm::tanh),
    func("Atan2", TWO, Kind::NUMBER, |a, _| float_value(libm::atan2(float(a, 0)?, float(a, 1)?))),
    func("Hypot", TWO, Kind::NUMBER, |a, _| float_value(libm::hypot(float(a, 0)?, float(a, 1)?))),
    func("Mod", TWO, Kind::NUMBER, |a, _| float_value(libm::fmod(float(a, 0)?, float(a, 1)?))),
    func("Remainder", TWO, Kind::NUMBER, |a, _| {
        float_value(libm::remainder(float(a, 0)?, float(a, 1)?))
    }),
    func("Jn", &[I, N], Kind::NUMBER, |a, b| bessel(a, b, libm::jn)),
    func("Yn", &[I, N], Kind::NUMBER, |a, b| bessel(a, b, libm::yn)),
    func("Ldexp", &[N, I], Kind::NUMBER, |a, _| {
        // Beyond this the result is zero or infinite anyway.
        float_value(libm::ldexp(float(a, 0)?, int(a, 1)?.clamp(-5000, 5000) as i32))
    }),
    func("Ilogb", ONE, Kind::INT, |a, _| {
        Ok(Value::from(match float(a, 0)? {
            0.0 => i64::from(i32::MIN),
            x => i64::from(libm::ilogb(x)),
        }))
    }),
];

fn whole(args: &[Value], mode: Rounding) -> Out {
    match decimal(args, 0)?.to_integral(mode).to_bigint() {
        Some(n) => big(n),
        None => fail("not an integer"),
    }
}

/// Functions of many digits cost about as much as a thousand steps.
fn slow(budget: &mut Budget, run: impl FnOnce() -> Result<Decimal, BuiltinError>) -> Out {
    budget.steps(1000)?;
    Ok(number(run()?))
}

fn multiple_of(args: &[Value], budget: &mut Budget) -> Out {
    let (x, y) = (decimal(args, 0)?, decimal(args, 1)?);
    if y.is_zero() {
        return fail("division by zero");
    }
    if x.is_zero() {
        return Ok(true.into());
    }
    // Both as integers of one unit. A dividend with a larger exponent is reduced by modular
    // powers, so the size of exponents does not matter.
    let (mut dividend, mut divisor) = (x.coefficient(), y.coefficient());
    let gap = i64::from(x.exponent()) - i64::from(y.exponent());
    budget.steps(gap.unsigned_abs() >> 4)?;
    // A modular power multiplies for every bit of the exponent.
    for _ in 0..gap.unsigned_abs().checked_ilog2().unwrap_or(0) {
        budget.arithmetic(y.words() * 2)?;
    }
    if gap >= 0 {
        let modulus = BigInt::from(divisor.magnitude().clone());
        dividend *= BigInt::from(10_u8).modpow(&BigInt::from(gap), &modulus);
        divisor = modulus;
    } else {
        divisor *= BigInt::from(10_u8).pow(u32::try_from(-gap).unwrap_or(u32::MAX).min(300_000));
    }
    Ok(((dividend % divisor).sign() == Sign::NoSign).into())
}

/// The Jacobi symbol by quadratic reciprocity.
fn jacobi(args: &[Value], budget: &mut Budget) -> Out {
    let (mut x, mut y) = (bigint(args, 0)?, bigint(args, 1)?);
    budget.steps((x.bits() + y.bits()).saturating_mul(4))?;
    if !y.bit(0) {
        return fail(format!(
            "big: invalid 2nd argument to Int.Jacobi: need odd integer but got {y}"
        ));
    }
    let mut sign = 1_i64;
    if y.sign() == Sign::Minus {
        if x.sign() == Sign::Minus {
            sign = -1;
        }
        y = -y;
    }
    loop {
        if y == BigInt::from(1) {
            return Ok(Value::from(sign));
        }
        x = ((x % &y) + &y) % &y;
        if x.sign() == Sign::NoSign {
            return Ok(Value::from(0));
        }
        let twos = x.trailing_zeros().unwrap_or(0);
        let mod8 = (&y % 8_u8).magnitude().iter_u32_digits().next().unwrap_or(0);
        if twos % 2 == 1 && (mod8 == 3 || mod8 == 5) {
            sign = -sign;
        }
        x >>= twos;
        if (mod8 & 3) == 3 && x.bit(0) && x.bit(1) {
            sign = -sign;
        }
        std::mem::swap(&mut x, &mut y);
        budget.steps(1)?;
    }
}

fn bessel(args: &[Value], budget: &mut Budget, run: fn(i32, f64) -> f64) -> Out {
    let n = int(args, 0)?;
    // The recurrence runs over the order.
    budget.steps(n.unsigned_abs())?;
    match i32::try_from(n) {
        Ok(n) => float_value(run(n, float(args, 1)?)),
        Err(_) => fail(format!("int {n} overflows int32 in argument 0")),
    }
}

/// Inverse error function: an estimate refined by Newton's method on `erf`.
fn erfinv(y: f64) -> f64 {
    if !(-1.0..=1.0).contains(&y) {
        return f64::NAN;
    }
    if y.abs() == 1.0 {
        return y * f64::INFINITY;
    }
    // Winitzki's approximation.
    let a = 0.147;
    let log = libm::log1p(-y * y);
    let t = 2.0 / (std::f64::consts::PI * a) + log / 2.0;
    let mut x = libm::copysign(libm::sqrt(libm::sqrt(t * t - log / a) - t), y);
    for _ in 0..4 {
        let error = if y.abs() > 0.5 {
            // Near one, erfc keeps the digits that erf has lost.
            libm::copysign((1.0 - y.abs()) - libm::erfc(x.abs()), y)
        } else {
            libm::erf(x) - y
        };
        let slope = 2.0 / libm::sqrt(std::f64::consts::PI) * libm::exp(-x * x);
        let step = error / slope;
        x -= step / (1.0 + x * step);
    }
    x
}
