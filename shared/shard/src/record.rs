//! The table as text: the JSON of an annotation, small enough for one Lease and readable by people.
//!
//! `{"protocol":1,"revision":9,"epoch":3,"members":[{"id":"pod_uuid"},{"id":"pod_uuid","pool":"shard-0"}],"lead":"a",
//! "leadWanted":"a","pools":{"":{"holds":"aab…","wanted":"aab…"},"shard-0":{"holds":"bbb…","wanted":"bbb…"}}}`: a letter for each
//! bucket, the index of a member in base 62 (`a`-`z`, `A`-`Z`, `0`-`9`), `-` for nobody. The default pool has no name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::BUCKETS;
use crate::table::{Entry, MAX_POOLS, PoolName, Rows, Table};

/// The version of the record that this library speaks.
pub const PROTOCOL: u32 = 1;
/// How many members a table can have: indexes are one letter.
pub const MAX_MEMBERS: usize = 60;
/// The longest identity: a name of a Pod and a UUID.
const MAX_ID: usize = 300;
const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// The longest name of a pool: it is the value of a label.
const MAX_POOL: usize = 63;

/// A table that cannot be read. Whoever reads it works on nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not the JSON of a table.
    #[error("the table of shards is no JSON of a table: {0}")]
    Json(String),
    /// Another release wrote it.
    #[error("the table of shards has protocol {found}, this release speaks {PROTOCOL}")]
    Protocol {
        /// Its protocol.
        found: u32,
    },
    /// Its parts contradict each other.
    #[error("the table of shards is inconsistent: {0}")]
    Inconsistent(&'static str),
}

#[derive(Serialize, Deserialize)]
struct Record {
    protocol: u32,
    revision: u64,
    epoch: u64,
    members: Vec<MemberRecord>,
    lead: String,
    #[serde(rename = "leadWanted")]
    lead_wanted: String,
    pools: BTreeMap<String, PoolRecord>,
}

#[derive(Serialize, Deserialize)]
struct MemberRecord {
    id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pool: String,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    weight: u16,
}

#[derive(Serialize, Deserialize)]
struct PoolRecord {
    holds: String,
    wanted: String,
    #[serde(default, rename = "fallsBack", skip_serializing_if = "is_false")]
    falls_back: bool,
}

const fn one() -> u16 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_one(weight: &u16) -> bool {
    *weight == 1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

fn letter(of: Option<u8>) -> char {
    of.and_then(|index| LETTERS.get(usize::from(index))).map_or('-', |letter| char::from(*letter))
}

impl Table {
    /// The text of the record.
    #[must_use]
    pub fn to_text(&self) -> String {
        let row = |row: &[Option<u8>]| row.iter().map(|of| letter(*of)).collect::<String>();
        let of_pool = |(name, rows): (&PoolName, &Rows)| {
            let (holds, wanted) = (row(&rows.holds), row(&rows.wanted));
            (name.to_string(), PoolRecord { holds, wanted, falls_back: rows.falls_back })
        };
        let record = Record {
            protocol: PROTOCOL,
            revision: self.revision,
            epoch: self.epoch,
            members: self
                .members
                .iter()
                .map(|member| MemberRecord {
                    id: member.id.to_string(),
                    pool: member.pool.to_string(),
                    weight: member.weight,
                })
                .collect(),
            lead: letter(self.lead.0).to_string(),
            lead_wanted: letter(self.lead.1).to_string(),
            pools: self.pools.iter().map(of_pool).collect(),
        };
        serde_json::to_string(&record).unwrap_or_default()
    }

    /// Reads a record. Anybody with rights on Leases may have written it, so everything is checked.
    ///
    /// # Errors
    /// [`RecordError`]; nothing of the record counts then.
    pub fn from_text(text: &str) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct Version {
            protocol: u32,
        }
        let wrong = |error: serde_json::Error| RecordError::Json(error.to_string());
        let found = serde_json::from_str::<Version>(text).map_err(wrong)?.protocol;
        if found != PROTOCOL {
            return Err(RecordError::Protocol { found });
        }
        let record: Record = serde_json::from_str(text).map_err(wrong)?;
        let count = record.members.len();
        if count > MAX_MEMBERS {
            return Err(RecordError::Inconsistent("more members than there are letters"));
        }
        let mut members: Vec<Entry> = Vec::with_capacity(count);
        for MemberRecord { id, pool, weight } in record.members {
            if id.is_empty() || id.len() > MAX_ID || members.iter().any(|known| *known.id == *id) {
                return Err(RecordError::Inconsistent("a member without an identity of its own"));
            }
            if !record.pools.contains_key(&pool) {
                return Err(RecordError::Inconsistent("a member of no pool"));
            }
            members.push(Entry { id: id.into(), pool: pool.into(), weight });
        }
        if !record.pools.contains_key("") {
            return Err(RecordError::Inconsistent("no default pool"));
        }
        if record.pools.len() > MAX_POOLS.saturating_add(1)
            || record.pools.keys().any(|name| name.len() > MAX_POOL)
        {
            return Err(RecordError::Inconsistent("more pools than there can be"));
        }
        let row = |text: &str, length: usize| {
            let index = |letter: u8| match LETTERS.iter().position(|known| *known == letter) {
                _ if letter == b'-' => Ok(None),
                Some(index) if index < count => Ok(u8::try_from(index).ok()),
                _ => Err(RecordError::Inconsistent("a letter of no member")),
            };
            if text.len() != length {
                return Err(RecordError::Inconsistent("a row of another length"));
            }
            text.bytes().map(index).collect::<Result<Vec<_>, _>>()
        };
        let one = |text: &str| row(text, 1).map(|row| row.first().copied().flatten());
        let lead = (one(&record.lead)?, one(&record.lead_wanted)?);
        let mut pools = BTreeMap::new();
        for (name, PoolRecord { holds, wanted, falls_back }) in record.pools {
            let (holds, wanted) = (row(&holds, BUCKETS)?, row(&wanted, BUCKETS)?);
            pools.insert(PoolName::from(name), Rows { holds, wanted, falls_back });
        }
        Ok(Self {
            incarnation: "".into(),
            revision: record.revision,
            epoch: record.epoch,
            members,
            lead,
            pools,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Slot;

    fn table(members: usize) -> Table {
        let mut table = Table::new(BUCKETS);
        for number in 0..members {
            table.join(
                &format!(
                    "kubevela-vela-core-5f7c9d-{number:05}_6b0c3a5e-0000-4000-8000-000000000000"
                )
                .as_str()
                .into(),
                &pool(number).as_str().into(),
                1,
            );
            let slots: Vec<Slot> = table.slots().step_by(3).collect();
            slots.iter().for_each(|slot| table.give(slot));
        }
        table
    }

    /// Every third member is in a pool of its own, as long as there can be more.
    fn pool(number: usize) -> String {
        let pool = number / 3;
        if number.is_multiple_of(3) && number > 0 && pool <= MAX_POOLS {
            format!("shard-{pool}")
        } else {
            String::new()
        }
    }

    #[test]
    fn a_table_is_read_as_it_was_written_and_fits_into_a_lease() {
        for members in [0, 1, 3, MAX_MEMBERS] {
            let mut table = table(members);
            if members > 1 {
                table.retire(&std::sync::Arc::clone(&table.members[1].id));
            }
            let text = table.to_text();
            assert_eq!(Table::from_text(&text).as_ref(), Ok(&table));
            let pools = table.pools.len();
            let most = 1_000 + 90 * members + 600 * pools;
            assert!(text.len() < most, "{members} members and {pools} pools: {}", text.len());
        }
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let text = table(2).to_text();
        let refused = |from: &str, to: &str| {
            assert!(text.contains(from), "{from} in {text}");
            Table::from_text(&text.replacen(from, to, 1)).unwrap_err().to_string()
        };
        assert!(refused("\"protocol\":1", "\"protocol\":2").contains("has protocol 2"));
        assert!(refused("\"lead\":\"a\"", "\"lead\":\"c\"").contains("a letter of no member"));
        assert!(refused("\"lead\":\"a\"", "\"lead\":\"\"").contains("another length"));
        assert!(refused("\"\":{", "\"x\":{").contains("a member of no pool"));
        let pooled = table(4).to_text();
        assert!(pooled.contains("\"pool\":\"shard-1\""), "{pooled}");
        let lost = pooled.replace("\"pool\":\"shard-1\"", "\"pool\":\"shard-2\"");
        assert!(Table::from_text(&lost).unwrap_err().to_string().contains("a member of no pool"));
        let long = pooled.replace("shard-1", &"x".repeat(64));
        assert!(Table::from_text(&long).unwrap_err().to_string().contains("more pools"));
        assert!(refused("-00001_", "-00000_").contains("identity of its own"));
        for text in ["", "{}", "null", "[]", "{\"protocol\":1}"] {
            assert!(matches!(Table::from_text(text), Err(RecordError::Json(_))), "{text}");
        }
    }

    proptest! {
        /// A table that was damaged is refused or is a table; reading never panics.
        #[test]
        fn a_damaged_record_harms_nobody(at in any::<proptest::sample::Index>(), byte in 32_u8..127) {
            let mut text = table(4).to_text().into_bytes();
            let at = at.index(text.len());
            text[at] = byte;
            if let Ok(read) = Table::from_text(&String::from_utf8(text).unwrap()) {
                prop_assert_eq!(read.buckets(), BUCKETS);
                let count = read.members.len();
                let known = |row: &[Option<u8>]| row.len() == BUCKETS && row.iter().flatten().all(|of| usize::from(*of) < count);
                prop_assert!(read.pools.values().all(|rows| known(&rows.holds) && known(&rows.wanted)));
            }
        }
    }
}
