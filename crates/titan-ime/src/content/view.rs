//! A leaf merged with its tail as of one moment, row by row in the order of the keys.

use titan_mvcc::Timestamp;

use crate::content::leaf::{Leaf, Row};
use crate::content::tail::{Entries, Order};
use crate::content::timestamps::Timestamps;
use crate::content::versions::{self, Seen, Version};

/// A leaf and its tail at one moment.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    leaf: &'a Leaf,
    entries: Entries<'a>,
}

/// All versions of a key in a view.
pub(crate) struct MergedRow<'a> {
    pub(crate) key: &'a [u8],
    entries: Entries<'a>,
    /// The first of its entries in the tail.
    begin: usize,
    /// The entry after its last one.
    end: usize,
    /// Older versions, in the leaf.
    row: Option<Row<'a>>,
}

impl<'a> MergedRow<'a> {
    /// The answer at a timestamp, which must be in the set of the root.
    pub(crate) fn at(&self, at: Timestamp) -> Seen<'_> {
        for n in self.begin..self.end {
            if let Some(entry) = self.entries.get(n)
                && entry.commit <= at
            {
                return entry.seen();
            }
        }
        self.row.as_ref().map_or(Seen::Nothing, |row| row.at(at))
    }

    /// Whether its newest version is in the tail.
    pub(crate) fn is_written(&self) -> bool {
        self.begin < self.end
    }

    /// All versions, newest first.
    pub(crate) fn versions(&self) -> Vec<Version> {
        let mut versions = match &self.row {
            Some(row) => row.versions(),
            None => Vec::new(),
        };
        for n in (self.begin..self.end).rev() {
            if let Some(entry) = self.entries.get(n) {
                versions::add(&mut versions, Version::of(entry.commit, entry.seen()));
            }
        }
        versions
    }
}

impl<'a> View<'a> {
    pub(crate) fn new(leaf: &'a Leaf) -> Self {
        View {
            leaf,
            entries: Entries::of(leaf.tail()),
        }
    }

    /// The view at an earlier moment, which [`View::order`] has noted.
    pub(crate) fn as_of(leaf: &'a Leaf, order: Order) -> Self {
        View {
            leaf,
            entries: Entries::as_of(leaf.tail(), order),
        }
    }

    pub(crate) fn order(self) -> Order {
        self.entries.order()
    }

    /// The answer for a key at a timestamp, which must be in the set of the root.
    pub(crate) fn get(&self, key: &[u8], at: Timestamp) -> Seen<'a> {
        let first = self.entries.rank(key);
        let of_key = (first..).map_while(|n| self.entries.get(n).filter(|e| e.key() == key));
        let overlooked = mutant!(tail_is_overlooked);
        for entry in of_key {
            if entry.commit <= at && !overlooked {
                return entry.seen();
            }
        }
        let n = self.leaf.rank(key);
        match n < self.leaf.len() && self.leaf.key(n) == key {
            true => self.leaf.row(n).at(at),
            false => Seen::Nothing,
        }
    }

    /// The rows from `key` on, ascending.
    pub(crate) fn forward(self, key: &[u8]) -> impl Iterator<Item = MergedRow<'a>> {
        let mut n = self.leaf.rank(key);
        let mut begin = self.entries.rank(key);
        std::iter::from_fn(move || {
            let packed = (n < self.leaf.len()).then(|| self.leaf.key(n));
            let written = self.entries.get(begin).map(|entry| entry.key());
            let key = match (packed, written) {
                (Some(packed), Some(written)) => packed.min(written),
                (packed, written) => packed.or(written)?,
            };
            let row = (packed == Some(key)).then(|| self.leaf.row(n));
            n += usize::from(row.is_some());
            let mut end = begin;
            while self.entries.get(end).is_some_and(|e| e.key() == key) {
                end += 1;
            }
            Some(self.row(key, std::mem::replace(&mut begin, end), end, row))
        })
    }

    /// The rows before `key`, or all, descending.
    pub(crate) fn backward(self, key: Option<&[u8]>) -> impl Iterator<Item = MergedRow<'a>> {
        let mut n = key.map_or(self.leaf.len(), |key| self.leaf.rank(key));
        let mut end = key.map_or(self.entries.len(), |key| self.entries.rank(key));
        let before = move |end: usize| end.checked_sub(1).and_then(|n| self.entries.get(n));
        std::iter::from_fn(move || {
            let packed = n.checked_sub(1).map(|n| self.leaf.key(n));
            let written = before(end).map(|entry| entry.key());
            let key = packed.max(written)?;
            let row = (packed == Some(key)).then(|| self.leaf.row(n - 1));
            n -= usize::from(row.is_some());
            let mut begin = end;
            while before(begin).is_some_and(|e| e.key() == key) {
                begin -= 1;
            }
            Some(self.row(key, begin, std::mem::replace(&mut end, begin), row))
        })
    }

    /// Whether pruning by these timestamps would remove a version.
    pub(crate) fn has_prunable(self, timestamps: &Timestamps) -> bool {
        let is_prunable = |versions: Vec<Version>| {
            let mut pruned = versions.clone();
            versions::prune(&mut pruned, timestamps);
            pruned.len() < versions.len()
        };
        let mut chains = self.leaf.rows_with_chains();
        let mut written = self.forward(&[]).filter(|row| row.is_written());
        chains.any(|row| is_prunable(row.versions()))
            || (self.leaf.tail().is_some() && written.any(|row| is_prunable(row.versions())))
    }

    fn row(&self, key: &'a [u8], begin: usize, end: usize, row: Option<Row<'a>>) -> MergedRow<'a> {
        MergedRow {
            key,
            entries: self.entries,
            begin,
            end,
            row,
        }
    }
}
