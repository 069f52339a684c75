//! The keys of the actors of a life, and what their values say.
//!
//! Every key belongs to one actor, so its contents are determined by that actor's operations
//! alone. An actor's n-th operation has the version n. The seed of each
//! value that it writes is made of the version and, for an account, of the balance; the
//! [`Model`] of a database has only the descriptions of values.

use std::ops::Range;

use titan_testkit::ledger::Keys;
use titan_testkit::model::Model;
use titan_testkit::ops::{Value, stamp};

use crate::plan::Scale;

/// The first number of accounts: all accounts of an actor add up to [`BANK`].
pub const ACCOUNTS: u32 = 1_000_000;
/// The first number of keys that are only put and single-deleted alternately.
pub const SINGLES: u32 = 2_000_000;
/// The sum of an actor's accounts, at any moment.
pub const BANK: u64 = 10_000;
/// Number of accounts of an actor, and of its single-deleted keys in each family.
pub const EACH: u32 = 12;
/// Sizes near which values are frequent: the separation thresholds of the families, see
/// `plan.rs`.
pub const EDGES: [usize; 4] = [64, 256, 1024, 4096];

/// A column family from the point of view of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// The family `default`.
    Default,
    /// Never separates values.
    Inline,
    /// Always separates values, from varying sizes on.
    Blobs,
    /// The actor's own, which is created and dropped.
    Own,
}

impl Family {
    /// All families.
    pub const ALL: [Family; 4] = [Family::Default, Family::Inline, Family::Blobs, Family::Own];
    /// Those that all actors share.
    pub const SHARED: [Family; 3] = [Family::Default, Family::Inline, Family::Blobs];

    /// Its name in the database.
    pub fn name(self, actor: usize) -> String {
        match self {
            Family::Default => "default".to_owned(),
            Family::Inline => "inline".to_owned(),
            Family::Blobs => "blobs".to_owned(),
            Family::Own => format!("own-{actor}"),
        }
    }
}

/// A key of some actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The family it is in.
    pub family: Family,
    /// Its number.
    pub number: u32,
}

impl Key {
    /// The key in the database.
    pub fn bytes(self, actor: usize) -> Vec<u8> {
        format!("{actor:02}.{:07}", self.number).into_bytes()
    }

    /// The actor and the number of a key of the database.
    pub fn parse(bytes: &[u8]) -> Option<(usize, u32)> {
        let (actor, number) = std::str::from_utf8(bytes).ok()?.split_once('.')?;
        Some((actor.parse().ok()?, number.parse().ok()?))
    }

    /// The value that an operation of this version gives it. No value is longer than about `max`
    /// bytes.
    pub fn value(self, actor: usize, version: u64, amount: u64, max: usize) -> Value {
        let parts = [
            actor as u64,
            self.family as u64,
            u64::from(self.number),
            version,
            amount,
        ];
        let seed = parts.iter().fold(0x9e37_79b9_7f4a_7c15, |hash: u64, part| {
            (hash ^ part)
                .wrapping_mul(0xff51_afd7_ed55_8ccd)
                .rotate_left(29)
        });
        let mut rng = fastrand::Rng::with_seed(seed);
        let shortest = stamp::shortest(&self.family.name(actor), &self.bytes(actor));
        let len = match rng.u8(..20) {
            0..8 => shortest + rng.usize(..64),
            8..14 => EDGES[rng.usize(..EDGES.len())] - 2 + rng.usize(..5),
            14..19 => rng.usize(..=max.min(4200)),
            _ => rng.usize(..=max),
        };
        Value {
            seed: version << 16 | amount,
            len: len.max(shortest),
        }
    }
}

/// The version of the operation that wrote a value.
pub fn version(value: Value) -> u64 {
    value.seed >> 16
}

/// The balance of an account; 0 elsewhere.
pub fn amount(value: Value) -> u64 {
    value.seed & 0xffff
}

/// The owner of a key of a family, or of a whole family.
fn owner(family: &str, key: Option<&[u8]>) -> Option<usize> {
    let of_family = family.strip_prefix("own-").map(str::parse);
    match (of_family, key) {
        (Some(of_family), None) => of_family.ok(),
        (None, None) => None,
        (of_family, Some(key)) => {
            let (actor, _) = Key::parse(key)?;
            of_family.is_none_or(|it| it == Ok(actor)).then_some(actor)
        }
    }
}

/// Division of the keys of a database.
pub fn division(scale: &Scale) -> Keys {
    Keys::ByActor {
        actors: scale.actors(),
        owner,
        unlogged: Some(scale.unlogged()),
    }
}

/// A database without any family. Of values it has the descriptions.
pub fn nothing() -> Model {
    Model::without_families().described()
}

/// Whether an actor's own family exists.
pub fn has_own(model: &Model, actor: usize) -> bool {
    model.family(&Family::Own.name(actor)).is_some()
}

/// The families in which an actor's keys may be.
pub fn families(model: &Model, actor: usize) -> Vec<Family> {
    let exists = |family: &Family| *family != Family::Own || has_own(model, actor);
    Family::ALL.into_iter().filter(exists).collect()
}

/// An actor's keys with these numbers in a family, and their values.
pub fn entries(
    model: &Model,
    actor: usize,
    family: Family,
    numbers: Range<u32>,
) -> Vec<(Key, Value)> {
    let [from, to] = [numbers.start, numbers.end].map(|n| Key { family, number: n }.bytes(actor));
    let name = family.name(actor);
    let found = model.scan(&name, Some(&from), Some(&to));
    let entry = |(key, value): (&[u8], &[u8])| {
        let (_, number) = Key::parse(key)?;
        let value = std::str::from_utf8(value).ok()?.parse().ok()?;
        Some((Key { family, number }, value))
    };
    found.filter_map(entry).collect()
}

/// An actor's accounts with their balances.
pub fn accounts(model: &Model, actor: usize) -> Vec<(Key, u64)> {
    let accounts = Family::ALL.into_iter().flat_map(|family| {
        let numbers = ACCOUNTS..ACCOUNTS + EACH;
        entries(model, actor, family, numbers)
    });
    accounts.map(|(key, value)| (key, amount(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_families_name_their_actor() {
        let key = Key {
            family: Family::Blobs,
            number: 42,
        };
        assert_eq!(Key::parse(&key.bytes(3)), Some((3, 42)));
        assert_eq!(Key::parse(b"something else"), None);
        let of = |family, key: &str| owner(family, Some(key.as_bytes()));
        assert_eq!(of("blobs", "03.0000042"), Some(3));
        assert_eq!(of("own-3", "03.0000042"), Some(3));
        assert_eq!(of("own-2", "03.0000042"), None);
        assert_eq!(of("own-x", "03.0000042"), None);
        assert_eq!(of("blobs", "key"), None);
        assert_eq!(
            (owner("own-2", None), owner("blobs", None)),
            (Some(2), None)
        );
    }

    #[test]
    fn a_value_says_its_version_and_its_balance() {
        let key = Key {
            family: Family::Default,
            number: ACCOUNTS,
        };
        for version in 0..300 {
            let value = key.value(1, version, BANK, 30_000);
            assert_eq!((super::version(value), amount(value)), (version, BANK));
            let mut model = nothing();
            model.create_family("default");
            model.put("default", &key.bytes(1), value.to_string().into_bytes());
            assert_eq!(accounts(&model, 1), [(key, BANK)]);
        }
    }
}
