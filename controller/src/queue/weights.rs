//! The share of the workers that a namespace has while others wait (`--namespace-weights`).

use std::collections::BTreeMap;

/// The greatest weight: more would make the others' share too small to be reckoned with.
const MAX_WEIGHT: u64 = 100;

/// Weights of namespaces; a namespace that is not named has that of `*`, or 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    named: BTreeMap<String, u64>,
    others: u64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { named: BTreeMap::new(), others: 1 }
    }
}

/// A weight that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no weight of a namespace: write NAMESPACE=WEIGHT or *=WEIGHT, with a weight from 1 to {MAX_WEIGHT}"
)]
pub struct WeightError(String);

impl Weights {
    /// Reads `team-a=4,*=1`.
    ///
    /// # Errors
    /// An item that is none.
    pub fn parse(text: &str) -> Result<Self, WeightError> {
        let mut weights = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let bad = || WeightError(item.to_owned());
            let (name, weight) = item.split_once('=').ok_or_else(bad)?;
            let weight =
                weight.trim().parse().ok().filter(|weight| (1..=MAX_WEIGHT).contains(weight));
            let weight = weight.ok_or_else(bad)?;
            match name.trim() {
                "" => return Err(bad()),
                "*" => weights.others = weight,
                name => {
                    weights.named.insert(name.to_owned(), weight);
                }
            }
        }
        Ok(weights)
    }

    /// The weight of a namespace.
    pub(super) fn of(&self, namespace: &str) -> u64 {
        self.named.get(namespace).copied().unwrap_or(self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read() {
        let weights = Weights::parse(" team-a=4, *=2,").unwrap();
        assert_eq!((weights.of("team-a"), weights.of("other")), (4, 2));
        assert_eq!(Weights::parse("").unwrap().of("n"), 1);
        for bad in ["a", "a=", "a=0", "a=101", "=1", "a=x", "a=-1"] {
            assert_eq!(Weights::parse(bad), Err(WeightError(bad.to_owned())), "{bad}");
        }
    }
}
