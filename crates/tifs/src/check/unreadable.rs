//! Parts of the store that cannot be read, and what is not known because of them.

use std::collections::HashSet;

use bytes::Bytes;

use super::{Check, Problem};
use crate::error::{Error, Result};
use crate::kv::{Damage, Space};
use crate::schema::{InodeNumber, Key};

/// Keys that cannot be read: from `begin`, and before `end`.
struct Part {
    space: Space,
    begin: Vec<u8>,
    end: Vec<u8>,
}

/// What cannot be read.
#[derive(Default)]
pub(super) struct Unreadable {
    parts: Vec<Part>,
    /// What the store said, each place once.
    said: HashSet<String>,
}

impl Unreadable {
    /// One key that cannot be read.
    pub(super) fn add(&mut self, space: Space, key: Vec<u8>) {
        let end = [&key[..], &[0][..]].concat();
        self.parts.push(Part {
            space,
            begin: key,
            end,
        });
    }

    /// Whether keys that begin with `prefix` may be there that cannot be read.
    pub(super) fn may_have(&self, space: Space, prefix: &[u8]) -> bool {
        self.parts.iter().any(|part| {
            let is_before = *part.end <= *prefix;
            let is_after = *part.begin > *prefix && !part.begin.starts_with(prefix);
            part.space == space && !is_before && !is_after
        })
    }
}

/// Whether the store found damage. All other failures end a check.
pub(super) fn is_damage(error: &Error) -> bool {
    let source = error.engine_error();
    source.is_some_and(|source| source.kind() == titan::ErrorKind::Corruption)
}

impl Check<'_> {
    /// Notes that a scan cannot read from `begin` on, and returns where it can go on. It would have read
    /// keys before `end`.
    pub(super) fn pass_over(
        &mut self,
        space: Space,
        begin: Vec<u8>,
        end: &[u8],
        damage: Damage,
    ) -> Option<Vec<u8>> {
        let after = damage.last.map(|last| [&last, &[0][..]].concat());
        // To go on where it stopped would not end.
        let after = after.filter(|after| *after > begin && **after < *end);
        let said = damage.error.to_string();
        if self.unreadable.said.insert(said.clone()) {
            let what = described(space, &begin, after.as_deref());
            self.found(Problem::Unreadable, None, format!("{said}: {what}"));
        }
        self.unreadable.parts.push(Part {
            space,
            begin,
            end: after.clone().unwrap_or_else(|| end.to_vec()),
        });
        after
    }

    /// The value of a key of the volume itself, if it is there and can be read.
    pub(super) fn get(&mut self, of: Key<'_>) -> Result<Got> {
        let key = of.encode();
        match self.snapshot.get(Space::Meta, &key) {
            Ok(value) => Ok(value.map_or(Got::Nothing, Got::Value)),
            Err(e) if is_damage(&e) => {
                let what = match of {
                    Key::Superblock => "the superblock",
                    Key::NextInode => "the next inode number",
                    _ => "the counters of the volume",
                };
                let detail = format!("{e}: {what} cannot be read");
                self.found(Problem::Unreadable, None, detail);
                self.unreadable.add(Space::Meta, key);
                Ok(Got::Unreadable)
            }
            Err(e) => Err(e),
        }
    }

    /// Whether the attributes of an inode may be there and cannot be read.
    pub(super) fn may_exist(&self, number: InodeNumber) -> bool {
        let key = Key::Inode(number).encode();
        self.unreadable.may_have(Space::Meta, &key)
    }
}

/// What a look at a key found.
pub(super) enum Got {
    Nothing,
    Value(Bytes),
    Unreadable,
}

/// What the keys from `begin` are, and before `end` if that is known.
fn described(space: Space, begin: &[u8], end: Option<&[u8]>) -> String {
    let what = match (space, begin.first()) {
        (Space::Data, _) => "blocks of inodes",
        (_, Some(b'I')) => "attributes of inodes",
        (_, Some(b'E')) => "names in directories",
        (_, Some(b'O')) => "files without names: inodes",
        (_, Some(b'D')) => "truncated files: inodes",
        _ => return "keys of the volume itself cannot be read".to_owned(),
    };
    let first = number_in(begin).max(InodeNumber::ROOT.0);
    match end.map(number_in) {
        None => format!("{what} from {first} on cannot be read"),
        Some(last) if last <= first => format!("{what} {first} cannot be read, or some of them"),
        Some(last) => format!("{what} {first} to {last} cannot be read, or some of them"),
    }
}

/// The inode number after the first byte of a key, or after that of a shorter one that is between keys.
fn number_in(key: &[u8]) -> u64 {
    let mut number = [0; 8];
    let digits = key.get(1..).unwrap_or_default();
    for (to, from) in number.iter_mut().zip(digits) {
        *to = *from;
    }
    u64::from_be_bytes(number)
}
