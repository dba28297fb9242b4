//! How many requests are in flight to a cluster. A cluster that cannot be reached, or a user with many requests, delays nobody else.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// How many there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Of one user, to one cluster.
    pub per_user: usize,
    /// Of all users, to one cluster.
    pub per_cluster: usize,
}

/// The requests to one cluster that are in flight.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    users: BTreeMap<String, usize>,
}

/// Why there may be no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    OfUser,
    OfCluster,
}

/// One of them; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    counter: Arc<Counter>,
    user: String,
}

impl Counter {
    pub(crate) fn take(self: &Arc<Self>, user: &str, limits: StreamLimits) -> Result<Permit, Full> {
        let mut open = self.open.lock();
        if open.users.get(user).is_some_and(|count| *count >= limits.per_user) {
            return Err(Full::OfUser);
        }
        if open.all >= limits.per_cluster {
            return Err(Full::OfCluster);
        }
        open.all += 1;
        *open.users.entry(user.to_owned()).or_default() += 1;
        Ok(Permit { counter: Arc::clone(self), user: user.to_owned() })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.counter.open.lock();
        open.all = open.all.saturating_sub(1);
        if let Some(count) = open.users.get_mut(&self.user) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_room_for_others_and_places_are_given_back() {
        let limits = StreamLimits { per_user: 2, per_cluster: 3 };
        let counter = Arc::new(Counter::default());
        let take = |user| counter.take(user, limits);
        let first = take("alice").unwrap();
        let second = take("alice").unwrap();
        assert_eq!(take("alice").unwrap_err(), Full::OfUser);
        let third = take("bob").unwrap();
        assert_eq!(take("bob").unwrap_err(), Full::OfCluster);
        drop(first);
        let fourth = take("bob").unwrap();
        drop((second, third, fourth));
        let open = counter.open.lock();
        assert!(open.all == 0 && open.users.is_empty());
    }
}
