//! Package `math/bits`: bits of integers of any size, negative ones in two's complement.

use num_bigint::{BigInt, Sign};

use super::args::{Out, big, bigint, fail, func, int};
use super::{BuiltinError, Member, Param};
use crate::kind::Kind;
use crate::limits::{Budget, LimitError};
use crate::value::Value;

const I: Param = Param::INT;
const ONE: &[Param] = &[I];
const TWO: &[Param] = &[I, I];

/// Bits a result may have: what the digits of a number allow.
const MOST_BITS: u64 = 330_000;

pub(super) static PACKAGE: &[Member] = &[
    func("And", TWO, Kind::INT, |a, _| big(bigint(a, 0)? & bigint(a, 1)?)),
    func("Or", TWO, Kind::INT, |a, _| big(bigint(a, 0)? | bigint(a, 1)?)),
    func("Xor", TWO, Kind::INT, |a, _| big(bigint(a, 0)? ^ bigint(a, 1)?)),
    // a & !b, without a not: -b - 1 is the complement.
    func("Clear", TWO, Kind::INT, |a, _| big(bigint(a, 0)? & (-bigint(a, 1)? - BigInt::from(1)))),
    func("Lsh", TWO, Kind::INT, |a, b| {
        let (n, by) = (bigint(a, 0)?, shift(a, 1)?);
        if n.bits().saturating_add(by) > MOST_BITS && n.sign() != Sign::NoSign {
            return Err(b.cross(LimitError::Number).into());
        }
        big(if n.sign() == Sign::NoSign { n } else { n << by })
    }),
    func("Rsh", TWO, Kind::INT, |a, _| {
        let (n, by) = (bigint(a, 0)?, shift(a, 1)?.min(MOST_BITS * 2));
        big(n >> by)
    }),
    func("At", TWO, Kind::INT, |a, _| {
        let (n, at) = (bigint(a, 0)?, shift(a, 1)?);
        // Far to the left there is only the sign.
        let set = if at > n.bits() { n.sign() == Sign::Minus } else { n.bit(at) };
        Ok(Value::from(i64::from(set)))
    }),
    func("Set", &[I, I, I], Kind::INT, set),
    func("OnesCount", ONE, Kind::INT, |a, _| {
        Ok(Value::from(bigint(a, 0)?.magnitude().count_ones() as i64))
    }),
    func("Len", ONE, Kind::INT, |a, _| Ok(Value::from(bigint(a, 0)?.bits() as i64))),
];

fn shift(args: &[Value], i: usize) -> Result<u64, BuiltinError> {
    let by = int(args, i)?;
    u64::try_from(by)
        .or_else(|_| fail(format!("cannot use {by} (type int) as uint in argument {i}")))
}

fn set(args: &[Value], budget: &mut Budget) -> Out {
    let (mut n, at, bit) = (bigint(args, 0)?, shift(args, 1)?, shift(args, 2)?);
    if bit > 1 {
        return fail("bit is neither 0 nor 1");
    }
    if at > MOST_BITS {
        return Err(budget.cross(LimitError::Number).into());
    }
    n.set_bit(at, bit == 1);
    big(n)
}
