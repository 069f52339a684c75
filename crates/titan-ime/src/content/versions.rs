//! The versions of one key, and the rule of pruning.
//!
//! A version stays if a timestamp of the set finds it: it is newer than the safe point, or the
//! newest one up to the safe point or up to a reader before it. A deletion without older versions
//! goes as well: it finds the same as no version.
//!
//! The store must write the versions of a key in the order of their timestamps. Otherwise an older
//! version could follow a deletion that was pruned.

use std::sync::Arc;

use titan_mvcc::Timestamp;

use crate::content::memory::{BLOCK, Budget, Charge};
use crate::content::timestamps::Timestamps;

/// Larger values stay in the engine.
pub(crate) const LARGEST_INLINE: usize = 256;

/// The answer for a key at a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen<'a> {
    Value(&'a [u8]),
    Stored(Timestamp),
    Nothing,
}

/// The kind of a version's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Value,
    Stored,
    Deleted,
}

impl Tag {
    /// The answer of a version with this value.
    pub(crate) fn seen(self, value: &[u8], commit: Timestamp) -> Seen<'_> {
        match self {
            Tag::Value => Seen::Value(value),
            Tag::Stored => Seen::Stored(commit),
            Tag::Deleted => Seen::Nothing,
        }
    }
}

/// The content of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// This value.
    Value(Arc<[u8]>),
    /// A value that the engine has.
    Stored,
    /// None.
    Deleted,
}

impl Content {
    /// Bytes of memory outside of the enum itself.
    fn heap_bytes(&self) -> usize {
        match self {
            Content::Value(value) => value.len() + 16 + BLOCK,
            Content::Stored | Content::Deleted => 0,
        }
    }
}

/// A version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) commit: Timestamp,
    pub(crate) content: Content,
}

impl Version {
    /// The version with this answer at its own timestamp.
    pub(crate) fn of(commit: Timestamp, seen: Seen<'_>) -> Self {
        let content = match seen {
            Seen::Value(value) => Content::Value(value.into()),
            Seen::Stored(_) => Content::Stored,
            Seen::Nothing => Content::Deleted,
        };
        Version { commit, content }
    }
}

/// The older versions of a key, newest first. The newest one is in the row.
pub(crate) struct Chain {
    versions: Box<[Version]>,
    charge: Charge,
}

/// The bytes charged for the older versions of a key.
pub(crate) fn charged(versions: &[Version]) -> usize {
    match versions.split_first() {
        Some((_, older)) if !older.is_empty() => Chain::charged(older),
        _ => 0,
    }
}

impl Chain {
    pub(crate) fn new(versions: &[Version], budget: &Arc<Budget>) -> Self {
        Chain {
            versions: versions.into(),
            charge: Charge::new(budget, Chain::charged(versions)),
        }
    }

    fn charged(versions: &[Version]) -> usize {
        let heap: usize = versions.iter().map(|v| v.content.heap_bytes()).sum();
        size_of::<Chain>() + 16 + 2 * BLOCK + size_of_val(versions) + heap
    }

    pub(crate) fn versions(&self) -> &[Version] {
        &self.versions
    }

    pub(crate) fn bytes(&self) -> usize {
        self.charge.bytes()
    }
}

/// Adds a version to the versions of a key, newest first. It replaces one of the same timestamp.
pub(crate) fn add(versions: &mut Vec<Version>, version: Version) {
    let at = versions.partition_point(|v| v.commit > version.commit);
    match versions.get_mut(at) {
        Some(same) if same.commit == version.commit => *same = version,
        _ => versions.insert(at, version),
    }
}

/// Removes the versions of a key, newest first, that no timestamp of the set finds.
pub(crate) fn prune(versions: &mut Vec<Version>, served: &Timestamps) {
    let mut readers = served.readers().iter().peekable();
    let mut is_first = true;
    versions.retain(|version| {
        let commit = version.commit;
        if commit > served.from() {
            return true;
        }
        let mut is_needed = std::mem::replace(&mut is_first, false);
        if mutant!(pruned_under_a_reader) {
            return is_needed;
        }
        while readers.next_if(|reader| **reader >= commit).is_some() {
            is_needed = true;
        }
        is_needed
    });
    if mutant!(deletion_goes_first) {
        versions.retain(|v| v.content != Content::Deleted || v.commit > served.from());
    }
    while versions
        .last()
        .is_some_and(|oldest| oldest.content == Content::Deleted)
    {
        versions.pop();
    }
}

/// The version that a timestamp finds among the versions of a key, newest first.
pub(crate) fn find(versions: &[Version], at: Timestamp) -> Option<&Version> {
    let first = versions.partition_point(|v| v.commit > at);
    versions.get(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content_at(versions: &[Version], at: Timestamp) -> Content {
        find(versions, at).map_or(Content::Deleted, |v| v.content.clone())
    }

    fn some_versions(rng: &mut fastrand::Rng) -> Vec<Version> {
        let mut versions = Vec::new();
        for _ in 0..rng.usize(..8) {
            let commit = Timestamp(rng.u64(1..30));
            let content = match rng.usize(..3) {
                0 => Content::Deleted,
                1 => Content::Stored,
                _ => Content::Value(Arc::from([rng.u8(..)])),
            };
            add(&mut versions, Version { commit, content });
        }
        versions
    }

    #[test]
    fn pruning_changes_nothing_that_a_served_timestamp_finds_and_leaves_no_more_than_that() {
        for seed in 0..20_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let versions = some_versions(&mut rng);
            assert!(
                versions.windows(2).all(|w| w[0].commit > w[1].commit),
                "seed {seed}"
            );
            let readers: Vec<_> = (0..rng.usize(..4))
                .map(|_| Timestamp(rng.u64(..30)))
                .collect();
            let served = Timestamps::new(Timestamp(rng.u64(..30)), readers);
            let mut pruned = versions.clone();
            prune(&mut pruned, &served);
            let mut found = Vec::new();
            for at in (0..40).map(Timestamp).filter(|at| served.has(*at)) {
                let expected = content_at(&versions, at);
                assert_eq!(
                    content_at(&pruned, at),
                    expected,
                    "seed {seed}, {at}: {versions:?} {served:?}"
                );
                found.extend(find(&pruned, at).map(|v| v.commit));
            }
            found.dedup();
            assert!(
                pruned.iter().all(|v| found.contains(&v.commit)),
                "seed {seed}: {pruned:?}"
            );
            let oldest = pruned.last().map(|v| &v.content);
            assert_ne!(oldest, Some(&Content::Deleted), "seed {seed}");
        }
    }

    #[test]
    fn a_version_of_the_same_timestamp_is_replaced() {
        let version = |content| Version {
            commit: Timestamp(5),
            content,
        };
        let mut versions = vec![version(Content::Stored)];
        add(&mut versions, version(Content::Deleted));
        assert_eq!(versions, [version(Content::Deleted)]);
    }
}
