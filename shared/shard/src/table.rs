//! The table: who is a member, who holds each slot and who shall have it. Every method is one change that a member may make;
//! none of them asks whether it may, which is [`crate::Member`]'s business.

use std::sync::Arc;

use crate::assign::wanted;

/// Who a member is: `<pod>_<uuid>`, one for each process.
pub type MemberId = Arc<str>;

/// A row of the table: a bucket, or behind the last of them the duties of the leader, which are handed over like a bucket.
pub type Slot = usize;

/// A member as the table names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Who it is.
    pub id: MemberId,
    /// Its share compared with those of the others. With 0 it gets nothing more and gives what it has: it leaves.
    pub weight: u16,
}

/// The table. Rows hold indexes in `members`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Table {
    /// Grows with every write: of two tables that were read, the later one.
    pub revision: u64,
    /// Grows with every change of `members` or `wanted`.
    pub epoch: u64,
    /// Who takes part.
    pub members: Vec<Entry>,
    /// Who holds each slot; `None`: nobody.
    pub holds: Vec<Option<u8>>,
    /// Who shall have it.
    pub wanted: Vec<Option<u8>>,
}

impl Table {
    /// A table without members, of so many buckets and the leader's slot.
    #[must_use]
    pub fn new(buckets: usize) -> Self {
        let row = vec![None; buckets.saturating_add(1)];
        Self { revision: 0, epoch: 0, members: Vec::new(), holds: row.clone(), wanted: row }
    }

    /// How many buckets there are.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.holds.len().saturating_sub(1)
    }

    /// The slot of the leader's duties.
    #[must_use]
    pub fn lead(&self) -> Slot {
        self.buckets()
    }

    /// The index of a member.
    #[must_use]
    pub fn index(&self, id: &str) -> Option<u8> {
        let at = self.members.iter().position(|member| *member.id == *id)?;
        u8::try_from(at).ok()
    }

    fn id(&self, index: Option<u8>) -> Option<&MemberId> {
        self.members.get(usize::from(index?)).map(|member| &member.id)
    }

    /// Who holds a slot.
    #[must_use]
    pub fn holder(&self, slot: Slot) -> Option<&MemberId> {
        self.id(self.holds.get(slot).copied().flatten())
    }

    /// Who shall have a slot.
    #[must_use]
    pub fn target(&self, slot: Slot) -> Option<&MemberId> {
        self.id(self.wanted.get(slot).copied().flatten())
    }

    /// The slots that a member holds.
    pub fn held_by<'t>(&'t self, id: &'t str) -> impl Iterator<Item = Slot> + 't {
        let index = self.index(id);
        let of = move |(slot, holder): (Slot, &Option<u8>)| {
            (index.is_some() && *holder == index).then_some(slot)
        };
        self.holds.iter().enumerate().filter_map(of)
    }

    /// Somebody joins, with a weight. What nobody holds goes to who shall have it.
    pub fn join(&mut self, id: &MemberId, weight: u16) {
        if self.index(id).is_none() {
            self.members.push(Entry { id: Arc::clone(id), weight });
            self.plan();
        }
    }

    /// A member announces that it leaves: nobody shall have it any more.
    pub fn retire(&mut self, id: &str) {
        let found = self.members.iter_mut().find(|member| *member.id == *id && member.weight > 0);
        if let Some(member) = found {
            member.weight = 0;
            self.plan();
        }
    }

    /// A member is gone: what it held goes to who shall have it. Only for one that holds nothing, or whose Lease was seized.
    pub fn remove(&mut self, id: &str) {
        let Some(index) = self.index(id) else { return };
        self.members.remove(usize::from(index));
        for of in self.holds.iter_mut().chain(&mut self.wanted) {
            *of = match *of {
                Some(other) if other == index => None,
                Some(other) if other > index => Some(other.saturating_sub(1)),
                same => same,
            };
        }
        self.plan();
    }

    /// A slot goes from its holder to who shall have it.
    pub fn give(&mut self, slot: Slot) {
        let target = self.wanted.get(slot).copied().flatten();
        if let Some(holder) = self.holds.get_mut(slot) {
            *holder = target;
        }
    }

    /// New targets for the present members; what nobody holds goes there at once.
    fn plan(&mut self) {
        let lead = self.lead();
        let (buckets, _) = self.holds.split_at(lead.min(self.holds.len()));
        let mut targets = wanted(&self.members, buckets);
        targets.push(self.next_lead());
        self.wanted = targets;
        self.epoch = self.epoch.saturating_add(1);
        for slot in 0..self.holds.len() {
            if self.holds.get(slot).copied().flatten().is_none() {
                self.give(slot);
            }
        }
    }

    /// Who shall have the leader's duties: who has them, unless it leaves, else the member that is there longest.
    fn next_lead(&self) -> Option<u8> {
        let stays = |index: &u8| {
            self.members.get(usize::from(*index)).is_some_and(|member| member.weight > 0)
        };
        let holder = self.holds.get(self.lead()).copied().flatten();
        holder.filter(stays).or_else(|| {
            let first = self.members.iter().position(|member| member.weight > 0)?;
            u8::try_from(first).ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> MemberId {
        name.into()
    }

    fn held(table: &Table, name: &str) -> usize {
        table.held_by(name).count()
    }

    #[test]
    fn the_first_member_holds_everything_and_gives_to_the_second() {
        let mut table = Table::new(8);
        table.join(&id("a"), 1);
        assert_eq!((held(&table, "a"), table.epoch), (9, 1));
        table.join(&id("b"), 1);
        table.join(&id("b"), 1);
        assert_eq!(
            (held(&table, "a"), held(&table, "b"), table.epoch),
            (9, 0, 2),
            "nothing moves by itself"
        );
        let moves: Vec<Slot> =
            (0..9).filter(|slot| table.target(*slot) == Some(&id("b"))).collect();
        assert_eq!(moves.len(), 4);
        moves.iter().for_each(|slot| table.give(*slot));
        assert_eq!((held(&table, "a"), held(&table, "b")), (5, 4));
        assert_eq!(table.holder(table.lead()), Some(&id("a")));
    }

    #[test]
    fn what_a_dead_member_held_goes_on_and_indexes_follow() {
        let mut table = Table::new(6);
        ["a", "b", "c"].iter().for_each(|name| table.join(&id(name), 1));
        (0..7).for_each(|slot| table.give(slot));
        let of_c: Vec<Slot> = table.held_by("c").collect();
        table.remove("a");
        assert_eq!((held(&table, "b") + held(&table, "c"), table.index("a")), (7, None));
        assert!(of_c.iter().all(|slot| table.holder(*slot) == Some(&id("c"))));
        assert_eq!(table.holder(table.lead()), Some(&id("b")));
        table.remove("b");
        table.remove("c");
        assert!(table.holds.iter().chain(&table.wanted).all(Option::is_none));
    }

    #[test]
    fn who_leaves_keeps_its_slots_until_it_gives_them() {
        let mut table = Table::new(4);
        table.join(&id("a"), 1);
        table.retire("a");
        assert_eq!((held(&table, "a"), table.target(0)), (5, None), "there is nobody else");
        table.join(&id("b"), 1);
        assert!((0..5).all(|slot| table.target(slot) == Some(&id("b"))));
        assert_eq!(held(&table, "a"), 5);
    }
}
