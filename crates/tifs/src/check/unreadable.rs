//! Parts of the store that cannot be read, and the facts that are unknown because of them.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;

use crate::kv::Space;
use crate::schema::InodeNumber;

/// The unreadable parts.
#[derive(Default)]
pub(super) struct Unreadable {
    /// The first key of each part, and the first one after it.
    parts: BTreeMap<(Space, Vec<u8>), Vec<u8>>,
    /// The messages of the store, each place once.
    said: HashSet<String>,
}

impl Unreadable {
    /// Whether this is the first time that the store said this.
    pub(super) fn is_new(&mut self, said: &str) -> bool {
        self.said.insert(said.to_owned())
    }

    /// One key that cannot be read.
    pub(super) fn add_key(&mut self, space: Space, key: Vec<u8>) {
        let end = [&key[..], &[0][..]].concat();
        self.add(space, key, end);
    }

    pub(super) fn add(&mut self, space: Space, begin: Vec<u8>, end: Vec<u8>) {
        let known = self.parts.entry((space, begin)).or_default();
        if *known < end {
            *known = end;
        }
    }

    /// Whether keys that begin with `prefix` may be there that cannot be read.
    pub(super) fn may_have(&self, space: Space, prefix: &[u8]) -> bool {
        let at = (space, prefix.to_vec());
        let before = self.parts.range(..=&at).next_back();
        let reaches_it = before.is_some_and(|((of, _), end)| *of == space && **end > *prefix);
        let next = self.parts.range(&at..).next();
        let is_in_it =
            |((of, begin), _): (&(Space, Vec<u8>), _)| *of == space && begin.starts_with(prefix);
        reaches_it || next.is_some_and(is_in_it)
    }
}

/// The result of reading a key.
pub(super) enum Got {
    Nothing,
    Value(Bytes),
    Unreadable,
}

/// A name for the keys from `begin` on, and before `end` if that is known.
pub(super) fn described(space: Space, begin: &[u8], end: Option<&[u8]>) -> String {
    let what = match (space, begin.first()) {
        (Space::Data, _) => "blocks of inodes",
        (_, Some(b'I')) => "attributes of inodes",
        (_, Some(b'E')) => "names in directories",
        (_, Some(b'O')) => "marks of files without names, of inodes",
        (_, Some(b'D')) => "marks of truncated files, of inodes",
        _ => "keys of inodes",
    };
    let first = number_in(begin).max(InodeNumber::ROOT.0);
    match end.map(number_in) {
        None => format!("{what} from {first} on cannot be read"),
        Some(last) if last <= first => format!("some {what} {first} cannot be read"),
        Some(last) => format!("some {what} {first} to {last} cannot be read"),
    }
}

/// The inode number after the first byte of a key, or after that of a shorter one that is between
/// keys.
fn number_in(key: &[u8]) -> u64 {
    let mut number = [0; 8];
    let digits = key.get(1..).unwrap_or_default();
    for (to, from) in number.iter_mut().zip(digits) {
        *to = *from;
    }
    u64::from_be_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Key;

    #[test]
    fn a_prefix_may_have_what_a_part_covers_or_begins_in_it() {
        let mut unreadable = Unreadable::default();
        unreadable.add(Space::Meta, b"Eb".to_vec(), b"Ed".to_vec());
        unreadable.add_key(Space::Meta, b"Ixy".to_vec());
        for (prefix, expected) in [
            (&b"Ea"[..], false),
            (b"Eb", true),
            (b"Ec1", true),
            (b"Ed", false),
            (b"E", true),
            (b"Ix", true),
            (b"Ixy", true),
            (b"Ixy0", false),
            (b"I", true),
            (b"O", false),
        ] {
            let shown = prefix.escape_ascii();
            assert_eq!(
                unreadable.may_have(Space::Meta, prefix),
                expected,
                "{shown}"
            );
            assert!(!unreadable.may_have(Space::Data, prefix), "{shown}");
        }
    }

    #[test]
    fn what_keys_are_is_described_also_between_keys() {
        let inode = |number| Key::Inode(InodeNumber(number)).encode();
        let said = described(Space::Meta, b"I", Some(&inode(7)));
        assert_eq!(said, "some attributes of inodes 1 to 7 cannot be read");
        let said = described(
            Space::Data,
            b"B\0\0\0\0\0\0\x01",
            Some(b"B\0\0\0\0\0\0\x02"),
        );
        assert_eq!(said, "some blocks of inodes 256 to 512 cannot be read");
        let said = described(Space::Meta, b"E", None);
        assert_eq!(said, "names in directories from 1 on cannot be read");
    }
}
