//! Steps of clients elsewhere: requests with all their demands.
//!
//! - `prewrite` also takes inserts, `+K=V`, and `absent:K,K exists:K,K missing:K,K unchecked:K,K
//!   unlocked:K,K locked_at:K=T,K=T one_phase max_commit:T`.
//! - `lock` also takes `absent:K,K existing existence forced`, and prints the states of the keys.
//! - `check_status T K [reader:T now:T or_roll_back fallen_back pessimistic unverified]`:
//!   prints the action.
//! - `get K`, `list`: reads that report locks, with `at:T resolved:T,T committed:T,T latest`.
//! - `destroy FROM TO`: destroys a range, up to the end for `-`.

use titan_mvcc::{
    AbsentKey, Assertion, ConflictCheck, Demands, Direction, KeyDemand, KnownLocks, LockDemands,
    Mutation, PessimisticLock, Prewrite, Result, Snapshot, StatusCheck, Timestamp, Wait,
};

use super::answers;
use super::steps::{TTL, World};
use super::words::{Words, list, mutation};

/// Returns true if the option of this name lists the key.
fn lists(words: &Words<'_>, name: &str, key: &[u8]) -> bool {
    words
        .option(name)
        .is_some_and(|keys| list(keys).iter().any(|other| other == key))
}

fn demand(words: &Words<'_>, key: &[u8], is_insert: bool) -> KeyDemand {
    KeyDemand {
        absent: is_insert,
        assertion: match (lists(words, "exists", key), lists(words, "missing", key)) {
            (true, _) => Some(Assertion::Exists),
            (_, true) => Some(Assertion::Absent),
            _ => None,
        },
        check: match (
            lists(words, "unchecked", key),
            lists(words, "unlocked", key),
        ) {
            (true, _) => ConflictCheck::Nothing,
            (_, true) => ConflictCheck::Versions,
            _ => ConflictCheck::Usual,
        },
        locked_at: None,
    }
}

impl World {
    /// The timestamp that the option `locked_at` names for a key.
    fn locked_at(&self, words: &Words<'_>, key: &[u8]) -> Option<Timestamp> {
        let pairs = words.option("locked_at")?.split(',');
        let mut pairs = pairs.filter_map(|pair| pair.split_once('='));
        let (_, name) = pairs.find(|(of, _)| of.as_bytes() == key)?;
        Some(self.at(name))
    }

    pub(super) fn prewrite(&mut self, words: &Words<'_>, start: Timestamp) -> Result<String> {
        let writes = words.rest(1).iter();
        let (mut mutations, mut on_keys) = (Vec::new(), Vec::new());
        for word in writes {
            let write: Mutation<'_> = mutation(word.strip_prefix('+').unwrap_or(word));
            on_keys.push(KeyDemand {
                locked_at: self.locked_at(words, write.key()),
                ..demand(words, write.key(), word.starts_with('+'))
            });
            mutations.push(write);
        }
        let absent = words.option("absent").map(list).unwrap_or_default();
        let absent = absent.iter().map(|key| AbsentKey {
            key,
            check: demand(words, key, true).check,
        });
        let absent: Vec<_> = absent.collect();
        let demands = Demands {
            on_keys: &on_keys,
            absent: &absent,
            one_phase: words.option("one_phase").is_some(),
            max_commit: self.option_at(words, "max_commit"),
        };
        let primary = words.option("primary").map(str::as_bytes);
        let first = mutations.first().map(Mutation::key);
        let secondaries = words.option("async").map(list);
        let request = Prewrite {
            mutations: &mutations,
            primary: primary.or(first).unwrap_or_default(),
            start,
            read_at: self.option_at(words, "read_at").unwrap_or(start),
            ttl: words.seconds("ttl").unwrap_or(TTL),
            txn_size: 0,
            min_commit: self.option_at(words, "min_commit").unwrap_or_default(),
            for_update: self.option_at(words, "for_update"),
            secondaries: secondaries.as_deref(),
        };
        let prewritten = self.calls().prewrite_with(&request, &demands)?;
        let found = match prewritten.committed {
            Some(at) => return Ok(format!("committed at {}", self.named(words, at))),
            None => format!("from {} on", self.named(words, prewritten.min_commit)),
        };
        Ok(match prewritten.is_async == secondaries.is_some() {
            true => found,
            false => found + ", in two phases",
        })
    }

    pub(super) fn lock(
        &mut self,
        words: &Words<'_>,
        start: Timestamp,
        keys: &[&[u8]],
    ) -> Result<String> {
        let for_update = self.option_at(words, "for_update").unwrap();
        let primary = words.option("primary").map(str::as_bytes);
        let wants_values = words.option("values").is_some();
        let request = PessimisticLock {
            primary: primary.unwrap_or(keys[0]),
            start,
            for_update,
            since: self.option_at(words, "since").unwrap_or(for_update),
            ttl: words.seconds("ttl").unwrap_or(TTL),
            wait: words.seconds("wait").map_or(Wait::No, Wait::For),
            return_values: wants_values,
        };
        let absent = words.option("absent").map(list).unwrap_or_default();
        let absent: Vec<&[u8]> = absent.iter().map(|key| &**key).collect();
        let demands = LockDemands {
            absent: &absent,
            only_existing: words.option("existing").is_some(),
            existence: words.option("existence").is_some(),
            despite_conflicts: words.option("forced").is_some(),
            room: None,
        };
        let locked = self
            .calls()
            .pessimistic_lock_with(keys, &request, &demands)?;
        let shows =
            wants_values || demands.only_existing || demands.existence || demands.despite_conflicts;
        if !shows {
            return Ok("ok".to_owned());
        }
        let lines = locked.iter();
        let lines = lines.map(|key| answers::locked(key, &mut self.names));
        Ok(answers::all(lines.collect()))
    }

    pub(super) fn check_status(&mut self, words: &Words<'_>, start: Timestamp) -> Result<String> {
        let check = StatusCheck {
            reader: self.option_at(words, "reader").unwrap_or(Timestamp::ZERO),
            now: self.now(words)?,
            roll_back_if_missing: words.option("or_roll_back").is_some(),
            has_fallen_back: words.option("fallen_back").is_some(),
            for_pessimistic: words.option("pessimistic").is_some(),
            verify_is_primary: words.option("unverified").is_none(),
            ..StatusCheck::of(words.arguments[1].as_bytes(), start)
        };
        let checked = self.calls().check_status(&check)?;
        Ok(answers::checked(&checked, &mut self.names))
    }

    /// A read of a client that resolves locks itself.
    pub(super) fn read_as_client(&mut self, words: &Words<'_>) -> Result<String> {
        let timestamps = |name: &str| -> Vec<Timestamp> {
            let names = words.option(name).unwrap_or_default().split(',');
            let names = names.filter(|name| !name.is_empty());
            names.map(|name| self.at(name)).collect()
        };
        let known = KnownLocks {
            resolved: timestamps("resolved"),
            committed: timestamps("committed"),
            reads_latest: words.option("latest").is_some(),
            ..KnownLocks::default()
        };
        let snapshot: Snapshot = match self.option_at(words, "at") {
            Some(at) => self.store().snapshot_at(at)?,
            None => self.store().snapshot(),
        };
        let snapshot = snapshot.reporting_locks(known);
        if words.command == "get" {
            return Ok(answers::value(snapshot.get(words.first().as_bytes())?));
        }
        let direction = match words.option("backward") {
            Some(_) => Direction::Backward,
            None => Direction::Forward,
        };
        let mut rows = Vec::new();
        for row in snapshot.scan(None, None, direction)? {
            rows.push(match row {
                Ok(row) => answers::rows(std::iter::once(Ok(row)))?,
                Err(e) => answers::failure(&e, &mut self.names),
            });
        }
        Ok(answers::all(rows))
    }
}
