//! The entries of a map in the order of their keys.

use std::collections::BTreeMap;

use crate::text::Str;

/// Most maps of charts have a handful of entries and never change: those are lists, without room for more. A tree takes
/// several times that, since its nodes have room for eleven.
#[derive(Debug)]
pub struct Entries<V>(Repr<V>);

#[derive(Debug)]
enum Repr<V> {
    List(Vec<(Str, V)>),
    Tree(BTreeMap<Str, V>),
}

/// A list that is longer becomes a tree before an entry is put into it or taken out: in a list those behind it move.
const LONGEST_LIST: usize = 32;

impl<V> Entries<V> {
    /// No entries.
    #[must_use]
    pub const fn new() -> Self {
        Self(Repr::List(Vec::new()))
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::List(list) => list.len(),
            Repr::Tree(tree) => tree.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&V> {
        match &self.0 {
            Repr::List(list) => {
                let at = find(list, key).ok()?;
                list.get(at).map(|(_, value)| value)
            }
            Repr::Tree(tree) => tree.get(key),
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&Str, &V)> {
        let (list, tree) = match &self.0 {
            Repr::List(list) => (list.as_slice(), None),
            Repr::Tree(tree) => ([].as_slice(), Some(tree)),
        };
        list.iter().map(|(key, value)| (key, value)).chain(tree.into_iter().flatten())
    }

    /// The keys, each once.
    pub fn keys(&self) -> impl Iterator<Item = &Str> {
        self.iter().map(|(key, _)| key)
    }

    /// The values, by their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Puts an entry in; the value that the key had comes back.
    pub(crate) fn insert(&mut self, key: Str, value: V) -> Option<V> {
        match self.changing() {
            Repr::List(list) => match find(list, key.as_bytes()) {
                Ok(at) => list.get_mut(at).map(|(_, known)| std::mem::replace(known, value)),
                Err(at) => {
                    list.insert(at, (key, value));
                    None
                }
            },
            Repr::Tree(tree) => tree.insert(key, value),
        }
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<V> {
        match self.changing() {
            Repr::List(list) => find(list, key).ok().map(|at| list.remove(at).1),
            Repr::Tree(tree) => tree.remove(key),
        }
    }

    /// The values alone.
    pub(crate) fn into_values(self) -> Vec<V> {
        match self.0 {
            Repr::List(list) => list.into_iter().map(|(_, value)| value).collect(),
            Repr::Tree(tree) => tree.into_values().collect(),
        }
    }

    fn changing(&mut self) -> &mut Repr<V> {
        if let Repr::List(list) = &mut self.0
            && list.len() > LONGEST_LIST
        {
            self.0 = Repr::Tree(std::mem::take(list).into_iter().collect());
        }
        &mut self.0
    }
}

/// Where a key is, or where it would be.
fn find<V>(list: &[(Str, V)], key: &[u8]) -> Result<usize, usize> {
    list.binary_search_by(|(known, _)| known.as_bytes().cmp(key))
}

impl<V> Default for Entries<V> {
    fn default() -> Self {
        Self::new()
    }
}

/// Sorts entries by key; of those of one key the last stays.
pub fn last_of_each<K: Ord, V>(entries: &mut Vec<(K, V)>) {
    if entries.is_sorted_by(|(a, _), (b, _)| a < b) {
        return;
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            std::mem::swap(&mut later.1, &mut kept.1);
        }
        same
    });
}

impl<V> FromIterator<(Str, V)> for Entries<V> {
    /// Of entries of one key the last counts.
    fn from_iter<I: IntoIterator<Item = (Str, V)>>(entries: I) -> Self {
        let mut list: Vec<(Str, V)> = entries.into_iter().collect();
        last_of_each(&mut list);
        list.shrink_to_fit();
        Self(Repr::List(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn entries_are_a_map_however_they_are_kept() {
        let mut random = fastrand::Rng::with_seed(27);
        for _ in 0..500 {
            let mut pair = || (Str::from(format!("{}", random.u8(..60))), random.i64(0..9));
            let first: Vec<(Str, i64)> = (0..pair().1 * 5).map(|_| pair()).collect();
            let values = first.iter().map(|(key, value)| (key.clone(), Value::int(*value)));
            let mut ours: Entries<Value> = values.collect();
            let mut want: BTreeMap<Str, i64> = first.into_iter().collect();
            let int = |value: Option<&Value>| match value {
                Some(Value::Int(_, int)) => Some(*int),
                _ => None,
            };
            for _ in 0..80 {
                let (key, value) = pair();
                if value < 6 {
                    let before = ours.insert(key.clone(), Value::int(value));
                    assert_eq!(int(before.as_ref()), want.insert(key.clone(), value));
                } else {
                    assert_eq!(int(ours.remove(key.as_bytes()).as_ref()), want.remove(&key));
                }
                assert_eq!(int(ours.get(key.as_bytes())), want.get(&key).copied());
                assert_eq!(ours.len(), want.len());
            }
            assert!(ours.keys().eq(want.keys()));
            assert!(
                ours.values().map(|value| int(Some(value))).eq(want.values().copied().map(Some))
            );
        }
    }
}
