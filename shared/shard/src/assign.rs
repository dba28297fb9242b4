//! Assigns buckets to replicas: evenly, and with as few moves as possible.
//!
//! Rendezvous hashing decides who is preferred, capacity the balance, and what is held now the stability.

use std::cmp::Reverse;

use crate::bucket::score;
use crate::table::Entry;

/// The target of every bucket, as indexes in `members`. `holds` is who has them now; what no member of positive weight can have
/// is `None`. The result depends neither on the order of the members nor on anything but the arguments.
#[must_use]
pub fn wanted(members: &[Entry], holds: &[Option<u8>]) -> Vec<Option<u8>> {
    let mut room = capacities(members, holds);
    let mut wanted: Vec<Option<u8>> = vec![None; holds.len()];
    for (index, member) in (0_u8..).zip(members) {
        let mut held: Vec<usize> = (0..holds.len())
            .filter(|bucket| holds.get(*bucket).copied().flatten() == Some(index))
            .collect();
        held.sort_by_cached_key(|bucket| (Reverse(score(&member.id, *bucket)), *bucket));
        let Some(room) = room.get_mut(usize::from(index)) else { continue };
        held.truncate(*room);
        *room = room.saturating_sub(held.len());
        for bucket in held {
            if let Some(wanted) = wanted.get_mut(bucket) {
                *wanted = Some(index);
            }
        }
    }
    for (bucket, wanted) in wanted.iter_mut().enumerate().filter(|(_, wanted)| wanted.is_none()) {
        let with_room = (0_u8..).zip(members).zip(&room).filter(|(_, room)| **room > 0);
        let best = with_room.max_by_key(|((_, member), _)| (score(&member.id, bucket), &member.id));
        let Some(((index, _), _)) = best else { continue };
        *wanted = Some(index);
        if let Some(room) = room.get_mut(usize::from(index)) {
            *room = room.saturating_sub(1);
        }
    }
    wanted
}

/// How many buckets each member may have. They sum up to all buckets, if anybody has a weight.
fn capacities(members: &[Entry], holds: &[Option<u8>]) -> Vec<usize> {
    let total: usize = members.iter().map(|member| usize::from(member.weight)).sum();
    if total == 0 {
        return vec![0; members.len()];
    }
    let share = |member: &Entry| holds.len().saturating_mul(usize::from(member.weight));
    let mut capacities: Vec<usize> = members.iter().map(|member| share(member) / total).collect();
    let left = holds.len().saturating_sub(capacities.iter().sum());
    let held = |index: usize| {
        holds.iter().flatten().filter(|holder| usize::from(**holder) == index).count()
    };
    // Who has the larger rest, then who holds more, gets one more: nothing moves for the rounding.
    let mut order: Vec<(usize, &Entry)> = members.iter().enumerate().collect();
    order.retain(|(_, member)| member.weight > 0);
    order.sort_by_key(|(index, member)| {
        (Reverse(share(member) % total), Reverse(held(*index)), &member.id)
    });
    for (index, _) in order.into_iter().take(left) {
        if let Some(capacity) = capacities.get_mut(index) {
            *capacity = capacity.saturating_add(1);
        }
    }
    capacities
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::BUCKETS;

    fn members(ids: impl IntoIterator<Item = usize>) -> Vec<Entry> {
        ids.into_iter()
            .map(|id| Entry {
                id: format!("pod-{id}_{id}").as_str().into(),
                pool: "".into(),
                weight: 1,
            })
            .collect()
    }

    fn counts(members: &[Entry], row: &[Option<u8>]) -> Vec<usize> {
        (0..members.len())
            .map(|index| row.iter().flatten().filter(|of| usize::from(**of) == index).count())
            .collect()
    }

    /// The row of some members as another list of members sees it.
    fn seen_by(from: &[Entry], to: &[Entry], row: &[Option<u8>]) -> Vec<Option<u8>> {
        let translate = |index: &u8| {
            let id = &from[usize::from(*index)].id;
            to.iter().position(|member| member.id == *id).map(|at| u8::try_from(at).unwrap())
        };
        row.iter().map(|of| of.as_ref().and_then(translate)).collect()
    }

    /// Even to one bucket, all of them given, and no more moved than the counts require.
    fn check(before: &[Option<u8>], members: &[Entry], after: &[Option<u8>]) {
        let counts = counts(members, after);
        assert_eq!(counts.iter().sum::<usize>(), before.len(), "every bucket is given");
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= 1, "{counts:?}");
        let moved = before.iter().zip(after).filter(|(before, after)| before != after).count();
        let kept: usize = (0..members.len())
            .map(|index| {
                let held = before.iter().flatten().filter(|of| usize::from(**of) == index).count();
                held.min(counts[index])
            })
            .sum();
        assert_eq!(moved, before.len() - kept, "whoever holds a bucket and has room keeps it");
    }

    #[test]
    fn one_more_member_moves_its_share() {
        for (count, least) in
            [(1, 128), (2, 85), (3, 64), (4, 51), (5, 42), (8, 28), (10, 23), (20, 12)]
        {
            let few = members(0..count);
            let held = wanted(&few, &vec![None; BUCKETS]);
            let more = members(0..=count);
            let next = wanted(&more, &seen_by(&few, &more, &held));
            check(&held, &more, &next);
            let moved = held.iter().zip(&next).filter(|(a, b)| a != b).count();
            assert!(moved <= least + 2, "{count} members and one more: {moved} moved");
        }
    }

    #[test]
    fn weights_are_shares() {
        let mut all = members(0..3);
        all[0].weight = 2;
        assert_eq!(counts(&all, &wanted(&all, &vec![None; BUCKETS])), [128, 64, 64]);
        all[1].weight = 0;
        let of = counts(&all, &wanted(&all, &vec![Some(1); BUCKETS]));
        assert_eq!((of[1], of[0] + of[2]), (0, BUCKETS), "one that leaves keeps nothing: {of:?}");
        all.iter_mut().for_each(|member| member.weight = 0);
        assert!(wanted(&all, &vec![Some(1); BUCKETS]).iter().all(Option::is_none));
        assert!(wanted(&[], &[None]).iter().all(Option::is_none));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        /// Members come and go; after each change every target is even and the movement the least.
        #[test]
        fn histories_stay_even_and_move_little(steps in proptest::collection::vec((any::<bool>(), 0_usize..12), 1..12)) {
            let mut ids = vec![0];
            let mut held = wanted(&members(ids.clone()), &vec![None; BUCKETS]);
            for (joins, id) in steps {
                let before = members(ids.clone());
                match ids.iter().position(|known| *known == id) {
                    None if joins => ids.push(id),
                    Some(at) if !joins && ids.len() > 1 => { ids.remove(at); }
                    _ => continue,
                }
                let after = members(ids.clone());
                let seen = seen_by(&before, &after, &held);
                held = wanted(&after, &seen);
                check(&seen, &after, &held);
            }
        }

        #[test]
        fn the_order_of_members_means_nothing(count in 1_usize..20, turn in 0_usize..20, seed in any::<u64>()) {
            let first = members(0..count);
            let holds: Vec<Option<u8>> = (0_u64..256)
                .map(|bucket| {
                    let of = score("x", usize::try_from(seed.wrapping_add(bucket) % 65_536).unwrap());
                    (!of.is_multiple_of(3)).then(|| u8::try_from(of % count as u64).unwrap())
                })
                .collect();
            let mut second = first.clone();
            second.rotate_left(turn % count);
            let one = wanted(&first, &holds);
            let other = wanted(&second, &seen_by(&first, &second, &holds));
            prop_assert_eq!(seen_by(&first, &second, &one), other);
        }
    }
}
