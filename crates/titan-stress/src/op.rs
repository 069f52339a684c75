//! The operations of the actors of a life, as values and as text.
//!
//! Every key belongs to one actor, so its contents are determined by that actor's operations
//! alone, whatever the others do. An actor's n-th operation has the version n, which is in every
//! value it writes.
//!
//! As text, `write synced +d12 +i1000003=250 -b7 !o3..9 ~d2000001` puts a value, puts an account,
//! deletes, deletes a range, single-deletes; `d`, `i`, `b`, `o` are the families.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The first number of accounts: all accounts of an actor add up to [`BANK`].
pub const ACCOUNTS: u32 = 1_000_000;
/// The first number of keys that are only put and single-deleted alternately.
pub const SINGLES: u32 = 2_000_000;
/// The sum of an actor's accounts, at any moment.
pub const BANK: u64 = 10_000;

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

    fn letter(self) -> char {
        match self {
            Family::Default => 'd',
            Family::Inline => 'i',
            Family::Blobs => 'b',
            Family::Own => 'o',
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

    /// Whether it is an account.
    pub fn is_account(self) -> bool {
        (ACCOUNTS..SINGLES).contains(&self.number)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.family.letter(), self.number)
    }
}

/// The contents of a key; they determine its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The version of the operation that wrote it.
    pub version: u64,
    /// The balance of an account; 0 elsewhere.
    pub amount: u64,
}

/// A part of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are what their names say")]
pub enum Change {
    Put { key: Key, amount: u64 },
    Delete(Key),
    SingleDelete(Key),
    DeleteRange { family: Family, from: u32, to: u32 },
}

impl Change {
    /// Whether it changes `key`.
    pub fn touches(&self, key: Key) -> bool {
        match *self {
            Change::Put { key: k, .. } | Change::Delete(k) | Change::SingleDelete(k) => k == key,
            Change::DeleteRange { family, from, to } => {
                family == key.family && (from..to).contains(&key.number)
            }
        }
    }

    fn parse(text: &str) -> Option<Change> {
        let (kind, rest) = text.split_at_checked(1)?;
        match kind {
            "+" => {
                let (key, amount) = rest.split_once('=').unwrap_or((rest, "0"));
                let amount = amount.parse().ok()?;
                Some(Change::Put {
                    key: parse_key(key)?,
                    amount,
                })
            }
            "-" => parse_key(rest).map(Change::Delete),
            "~" => parse_key(rest).map(Change::SingleDelete),
            "!" => {
                let (from, to) = rest.split_once("..")?;
                let Key { family, number } = parse_key(from)?;
                Some(Change::DeleteRange {
                    family,
                    from: number,
                    to: to.parse().ok()?,
                })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Put { key, amount: 0 } => write!(f, "+{key}"),
            Change::Put { key, amount } => write!(f, "+{key}={amount}"),
            Change::Delete(key) => write!(f, "-{key}"),
            Change::SingleDelete(key) => write!(f, "~{key}"),
            Change::DeleteRange { family, from, to } => {
                write!(f, "!{}{from}..{to}", family.letter())
            }
        }
    }
}

/// The key of a text such as `d12`.
pub fn parse_key(text: &str) -> Option<Key> {
    let (letter, number) = text.split_at_checked(1)?;
    let family = Family::ALL
        .into_iter()
        .find(|f| letter.starts_with(f.letter()))?;
    Some(Key {
        family,
        number: number.parse().ok()?,
    })
}

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Durability {
    /// The end of the process, but only once its family is flushed: it is not logged.
    Unlogged,
    /// The end of the process.
    Logged,
    /// The end of the machine.
    Synced,
}

/// One operation of an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A batch.
    Write(Durability, Vec<Change>),
    /// Creates the actor's own family.
    Create,
    /// Drops it.
    Drop,
    /// Flushes it.
    Flush,
    /// Makes every logged write durable.
    SyncWal,
    /// Flushes every family.
    FlushAll,
    /// Closes the database.
    Close,
}

impl Op {
    /// Parses an operation.
    pub fn parse(text: &str) -> Option<Op> {
        let mut words = text.split(' ');
        Some(match words.next()? {
            "write" => {
                let durability = match words.next()? {
                    "unlogged" => Durability::Unlogged,
                    "logged" => Durability::Logged,
                    "synced" => Durability::Synced,
                    _ => return None,
                };
                Op::Write(durability, words.map(Change::parse).collect::<Option<_>>()?)
            }
            "create" => Op::Create,
            "drop" => Op::Drop,
            "flush" => Op::Flush,
            "sync-wal" => Op::SyncWal,
            "flush-all" => Op::FlushAll,
            "close" => Op::Close,
            _ => return None,
        })
    }

    /// Whether it may have changed the contents of `key`.
    pub fn touches(&self, key: Key) -> bool {
        match self {
            Op::Write(_, changes) => changes.iter().any(|c| c.touches(key)),
            Op::Create | Op::Drop => key.family == Family::Own,
            Op::Flush | Op::SyncWal | Op::FlushAll | Op::Close => false,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Op::Write(durability, changes) = self else {
            return f.write_str(match self {
                Op::Create => "create",
                Op::Drop => "drop",
                Op::Flush => "flush",
                Op::SyncWal => "sync-wal",
                Op::FlushAll => "flush-all",
                Op::Close | Op::Write(..) => "close",
            });
        };
        f.write_str(match durability {
            Durability::Unlogged => "write unlogged",
            Durability::Logged => "write logged",
            Durability::Synced => "write synced",
        })?;
        changes.iter().try_for_each(|change| write!(f, " {change}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_the_same_after_a_way_through_text() {
        let texts = [
            "write synced +d12 +i1000003=250 -b7 !o3..9 ~d2000001",
            "write unlogged +o0",
            "create",
            "drop",
            "flush",
            "sync-wal",
            "flush-all",
            "close",
        ];
        for text in texts {
            assert_eq!(Op::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Op::parse("write logged ?d1"), None);
        assert_eq!(Op::parse("write logged +x1"), None);
    }

    #[test]
    fn keys_name_their_actor() {
        let key = parse_key("b42").unwrap();
        assert_eq!(Key::parse(&key.bytes(3)), Some((3, 42)));
        assert_eq!(Key::parse(b"something else"), None);
    }
}
