//! Leaves: rows of neighbouring keys, packed.
//!
//! Keys and newest values are in one block, row after row; a head of fixed size has the end of each
//! row. The few rows with older versions have them in a chain beside the block. A leaf takes
//! exactly the memory that it needs and never changes. Writes go to its tail; when that is full,
//! the leaf is made anew.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use titan_mvcc::Timestamp;

use crate::content::memory::{BLOCK, Budget, Charge};
use crate::content::tail::{Entries, SLOTS, Tail};
use crate::content::versions::{Chain, Content, Seen, Tag, Version};
use crate::content::write::Write;

/// The usual size of a leaf in bytes.
const TARGET: usize = 4 << 10;
/// A leaf is cut only if it is larger than this.
const LARGEST: usize = 8 << 10;

/// A row without its bytes.
#[derive(Clone, Copy)]
struct Head {
    commit: Timestamp,
    /// The end of the key in the block. It begins at the end of the row before.
    key_end: usize,
    /// Bytes of the value, which follows the key.
    value_len: u16,
    tag: Tag,
}

impl Head {
    fn end(&self) -> usize {
        self.key_end + usize::from(self.value_len)
    }
}

/// A leaf.
pub(crate) struct Leaf {
    bytes: Box<[u8]>,
    heads: Box<[Head]>,
    /// Older versions, by the number of the row.
    chains: Box<[(u32, Arc<Chain>)]>,
    /// The last deletion, if the newest versions of all rows are deletions.
    dead_from: Option<Timestamp>,
    /// Made by the first write.
    tail: OnceLock<Box<Tail>>,
    charge: Charge,
}

/// A row of a leaf.
pub(crate) struct Row<'a> {
    pub(crate) key: &'a [u8],
    head: Head,
    value: &'a [u8],
    chain: Option<&'a Arc<Chain>>,
}

impl<'a> Row<'a> {
    /// The answer at a timestamp, which must be in the set of the root.
    pub(crate) fn at(&self, at: Timestamp) -> Seen<'a> {
        if self.head.commit <= at {
            return self.head.tag.seen(self.value, self.head.commit);
        }
        let older = self.chain.map_or(&[][..], |chain| chain.versions());
        match crate::content::versions::find(older, at) {
            None => Seen::Nothing,
            Some(version) => match &version.content {
                Content::Value(value) => Seen::Value(value),
                Content::Stored if mutant!(older_value_in_the_engine_is_none) => Seen::Nothing,
                Content::Stored => Seen::Stored(version.commit),
                Content::Deleted => Seen::Nothing,
            },
        }
    }

    /// All versions, newest first.
    pub(crate) fn versions(&self) -> Vec<Version> {
        let commit = self.head.commit;
        let newest = Version::of(commit, self.head.tag.seen(self.value, commit));
        let older = self.chain.map_or(&[][..], |chain| chain.versions());
        [newest].into_iter().chain(older.iter().cloned()).collect()
    }
}

impl Leaf {
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether no row has a value at a timestamp. Cost: reads the tail's order, and no row.
    pub(crate) fn is_dead_at(&self, at: Timestamp) -> bool {
        let Some(from) = self.dead_from else {
            return false;
        };
        let is_dead = from <= at || mutant!(leaf_is_dead_too_early);
        let is_as_made = Entries::of(self.tail()).len() == 0 || mutant!(written_to_a_dead_leaf);
        is_dead && is_as_made
    }

    /// Bytes of memory now, older versions and tail included.
    pub(crate) fn bytes(&self) -> usize {
        let chains: usize = self.chains.iter().map(|(_, chain)| chain.bytes()).sum();
        let tail = self.tail.get().map_or(0, |tail| tail.bytes());
        self.charge.bytes() + chains + tail
    }

    /// The writes since the leaf was made.
    pub(crate) fn tail(&self) -> Option<&Tail> {
        self.tail.get().map(|tail| &**tail)
    }

    /// Adds versions, in the order of their keys, to the tail. Returns false and adds nothing if
    /// the tail has no room, or a key is before the first row. Called by one thread at a time.
    pub(crate) fn append(&self, writes: &[Write<'_>], budget: &Arc<Budget>) -> bool {
        // Other leaves and segments are found by the first key, so that it must stay the first one.
        let is_after = writes.first().is_none_or(|w| w.key >= self.first_key());
        let tail = match self.tail.get() {
            Some(tail) => tail,
            None if is_after && writes.len() <= SLOTS => {
                self.tail.get_or_init(|| Box::new(Tail::new(budget)))
            }
            None => return false,
        };
        let fits = is_after && tail.has_room(writes.len());
        if fits {
            writes.iter().for_each(|write| tail.add(write));
        }
        fits
    }

    pub(crate) fn is_small(&self) -> bool {
        self.charge.bytes() < TARGET / 4
    }

    /// The row with this number.
    pub(crate) fn row(&self, n: usize) -> Row<'_> {
        let head = self.heads[n];
        let chain = match self.chains.is_empty() {
            true => None,
            false => self
                .chains
                .binary_search_by_key(&n, |(n, _)| *n as usize)
                .ok(),
        };
        Row {
            key: self.key(n),
            head,
            value: &self.bytes[head.key_end..head.end()],
            chain: chain.map(|at| &self.chains[at].1),
        }
    }

    /// The begin of a row in the block; after the last row, the end.
    fn begin(&self, n: usize) -> usize {
        match n {
            0 => 0,
            n => self.heads[n - 1].end(),
        }
    }

    pub(crate) fn key(&self, n: usize) -> &[u8] {
        &self.bytes[self.begin(n)..self.heads[n].key_end]
    }

    /// The first key. A leaf has at least one row.
    pub(crate) fn first_key(&self) -> &[u8] {
        self.key(0)
    }

    /// The number of rows before `key`.
    pub(crate) fn rank(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.heads.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.key(middle) < key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// The rows that have older versions.
    pub(crate) fn rows_with_chains(&self) -> impl Iterator<Item = Row<'_>> {
        self.chains.iter().map(|(n, _)| self.row(*n as usize))
    }

    /// Whether its tail was not written since the last call.
    pub(crate) fn has_idle_tail(&self) -> bool {
        self.tail.get().is_some_and(|tail| tail.is_idle())
    }
}

/// Rows that become leaves, added in the order of their keys.
#[derive(Default)]
pub(crate) struct Rows {
    bytes: Vec<u8>,
    heads: Vec<Head>,
    chains: Vec<(u32, Arc<Chain>)>,
}

impl Rows {
    /// Allocates room for the rows of a leaf and `more` bytes.
    pub(crate) fn for_leaf(leaf: &Leaf, more_rows: usize, more: usize) -> Self {
        Rows {
            bytes: Vec::with_capacity(leaf.bytes.len() + more),
            heads: Vec::with_capacity(leaf.heads.len() + more_rows),
            chains: Vec::new(),
        }
    }

    fn size(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.heads)
    }

    /// An upper bound of the bytes that the leaves will be charged.
    pub(crate) fn charged(&self) -> usize {
        let own = size_of::<Leaf>() + 16 + 4 * BLOCK;
        let all = own + self.size() + size_of_val(&*self.chains);
        // What is too large for one leaf is copied into several.
        match self.size() <= LARGEST {
            true => all,
            false => 2 * all + self.size().div_ceil(TARGET) * own,
        }
    }

    /// Whether the rows fill a leaf.
    pub(crate) fn is_enough(&self) -> bool {
        self.size() >= TARGET
    }

    /// Copies rows of a leaf. Cost: copies all their bytes and heads.
    pub(crate) fn push_rows(&mut self, leaf: &Leaf, rows: Range<usize>) {
        if rows.is_empty() {
            return;
        }
        let begin = leaf.begin(rows.start);
        let end = leaf.begin(rows.end);
        let (first, at) = (self.heads.len(), self.bytes.len());
        self.bytes.extend_from_slice(&leaf.bytes[begin..end]);
        let moved = leaf.heads[rows.clone()].iter().map(|head| Head {
            key_end: head.key_end - begin + at,
            ..*head
        });
        self.heads.extend(moved);
        if mutant!(copied_rows_lose_their_chains) {
            return;
        }
        let chains = leaf
            .chains
            .iter()
            .filter(|(n, _)| rows.contains(&(*n as usize)));
        let moved = chains.map(|(n, chain)| {
            let n = *n as usize - rows.start + first;
            (n as u32, Arc::clone(chain))
        });
        self.chains.extend(moved);
    }

    /// Adds the versions of a key, newest first; nothing if there are none.
    pub(crate) fn push(&mut self, key: &[u8], versions: &[Version], budget: &Arc<Budget>) {
        let Some((newest, older)) = versions.split_first() else {
            return;
        };
        let (tag, value) = match &newest.content {
            Content::Value(value) => (Tag::Value, &**value),
            Content::Stored => (Tag::Stored, &[][..]),
            Content::Deleted => (Tag::Deleted, &[][..]),
        };
        self.push_head(key, newest.commit, tag, value);
        if !older.is_empty() {
            let chain = Arc::new(Chain::new(older, budget));
            self.chains.push((self.heads.len() as u32 - 1, chain));
        }
    }

    fn push_head(&mut self, key: &[u8], commit: Timestamp, tag: Tag, value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.heads.push(Head {
            commit,
            key_end,
            // At most `LARGEST_INLINE`.
            value_len: value.len() as u16,
            tag,
        });
    }

    /// Makes leaves of the rows: one, or several of about the same size if one would be too large.
    pub(crate) fn into_leaves(self, budget: &Arc<Budget>, leaves: &mut Vec<Arc<Leaf>>) {
        if self.heads.is_empty() {
            return;
        }
        if self.size() <= LARGEST || self.heads.len() == 1 {
            leaves.push(leaf(self.bytes, self.heads, self.chains, budget));
            return;
        }
        let pieces = self.size().div_ceil(TARGET);
        let piece_size = self.size() / pieces + 1;
        let whole = leaf(self.bytes, self.heads, self.chains, budget);
        let mut first = 0;
        for n in 0..whole.len() {
            let size =
                whole.begin(n + 1) - whole.begin(first) + (n + 1 - first) * size_of::<Head>();
            if size < piece_size && n + 1 < whole.len() {
                continue;
            }
            let mut piece = Rows {
                bytes: Vec::with_capacity(whole.begin(n + 1) - whole.begin(first)),
                heads: Vec::with_capacity(n + 1 - first),
                chains: Vec::new(),
            };
            piece.push_rows(&whole, first..n + 1);
            leaves.push(leaf(piece.bytes, piece.heads, piece.chains, budget));
            first = n + 1;
        }
    }
}

fn leaf(
    bytes: Vec<u8>,
    heads: Vec<Head>,
    chains: Vec<(u32, Arc<Chain>)>,
    budget: &Arc<Budget>,
) -> Arc<Leaf> {
    let blocks = match chains.is_empty() {
        true => 3,
        false => 4,
    };
    let own = size_of::<Leaf>() + 16 + blocks * BLOCK;
    let size = own + bytes.len() + size_of_val(&*heads) + size_of_val(&*chains);
    let is_dead = heads.iter().all(|head| head.tag == Tag::Deleted);
    let last = heads.iter().map(|head| head.commit).max();
    Arc::new(Leaf {
        bytes: bytes.into_boxed_slice(),
        heads: heads.into_boxed_slice(),
        chains: chains.into_boxed_slice(),
        dead_from: last.filter(|_| is_dead),
        tail: OnceLock::new(),
        charge: Charge::new(budget, size),
    })
}
