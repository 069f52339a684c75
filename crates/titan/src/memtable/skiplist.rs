//! The sorted structure of a memtable: a skiplist that many threads insert into and read at once.
//!
//! Owns: the nodes, in an [`Arena`] of its own. Promises: entries are in the order of internal
//! keys; an inserted entry is seen by every later lookup and never moves, changes or disappears;
//! readers never wait and never retry; inserts are lock-free (except when the arena needs a new
//! chunk). Assumes nothing beyond a comparator that is a total order; an inconsistent one gives
//! wrong answers, never undefined behaviour.
//!
//! # Nodes
//!
//! One allocation, 8-byte aligned. A node's address is that of its level-0 link, so the fields that
//! a walk along level 0 needs, link, lengths and the head of the key, share a cache line, and the
//! height need not be stored:
//!
//! ```text
//! | link h-1 | ... | link 1 | link 0 | key len u32 | value len u32 | user key | trailer | value |
//!                           ^ node address
//! ```
//!
//! Heights go up to 12 with branching 4, enough for 16 million entries. They come from a
//! hashed counter: the shape depends on nothing but the order of inserts.
//!
//! # Ascending inserts
//!
//! `tail[l]` remembers the node last appended at level `l`. A key after all of these starts its
//! search there and is linked after a constant number of comparisons; any other key pays one
//! comparison for the attempt. Since nodes are never removed, a remembered node is a valid place
//! to start from for ever, so a stale entry costs steps, not correctness.
//!
//! # Why the unsafe code is sound
//!
//! 1. *Lifetime.* Nodes are in the arena, which the list owns and which frees nothing before it is
//!    dropped. [`NodeRef<'a>`] carries the borrow of the list; an iterator holds an `Arc` of it.
//! 2. *Initialisation.* `new_node` writes links, lengths, key and value before the address leaves
//!    the function. Other threads obtain addresses only from links and `tail`, both stored with
//!    release after that and loaded with acquire; where an address is passed on by a thread that
//!    itself acquired it, happens-before is transitive. So every thread sees complete nodes.
//! 3. *Immutability.* After `new_node` only the links change, and they are atomics. Keys and values
//!    can be lent as plain slices.
//! 4. *Levels.* A link at level `l` exists only in nodes higher than `l`. A node is reached at
//!    level `l` through a level-`l` link or through `tail[l]`, and only nodes higher than `l` are
//!    ever stored there; walking down goes to lower levels of the same node. The head has all
//!    levels.
//! 5. *Bottom up.* A node is linked at level 0 first, at level `l` after all lower ones. A thread
//!    that reaches it at level `l` therefore finds its lower links set, and an entry visible at
//!    some level is visible at level 0. This is about completeness; a link not yet set is null, not
//!    undefined.
//! 6. *No lost insert.* A link is replaced by compare-and-swap from the successor that was
//!    compared; if another node came between, the walk goes on from the same predecessor.

#![expect(
    unsafe_code,
    reason = "lock-free nodes in an arena; the module text gives the argument"
)]

use std::array;
use std::cmp::Ordering as Order;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::format::internal_key::{InternalKeyComparator, TRAILER_LEN, trailer, user_key};
use crate::memtable::arena::Arena;
use crate::sync::lock_free::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Levels of the highest node.
const MAX_HEIGHT: usize = 12;
/// One node in `2^BRANCHING_BITS` of a level is also in the next.
const BRANCHING_BITS: u32 = 2;
/// The longest key (with trailer) or value, in bytes: lengths have 32 bits, and sums of two
/// lengths must stay far from overflow on machines of any word size.
pub(super) const MAX_LEN: usize = if usize::BITS > 32 {
    u32::MAX as usize
} else {
    1 << 29
};

/// See the module.
pub(super) struct SkipList {
    comparator: InternalKeyComparator,
    head: NonNull<Node>,
    /// Levels in use, at least 1. May lag: a search from a lower level is only slower.
    height: AtomicUsize,
    tail: [AtomicPtr<Node>; MAX_HEIGHT],
    tickets: AtomicU64,
    arena: Arena,
}

/// The fixed part of a node.
#[repr(C)]
struct Node {
    link: Link,
    key_len: u32,
    value_len: u32,
}

type Link = AtomicPtr<Node>;

// SAFETY: the pointers lead into the arena, which is owned and itself `Send` and `Sync`; points
// 2 and 3 of the module make shared access to nodes free of races.
unsafe impl Send for SkipList {}
// SAFETY: as above.
unsafe impl Sync for SkipList {}

/// The key of a search: an internal key in its two parts, so that callers need not join them.
#[derive(Clone, Copy)]
pub(super) struct Target<'k> {
    pub(super) user_key: &'k [u8],
    pub(super) trailer: u64,
}

impl<'k> Target<'k> {
    pub(super) fn of(internal_key: &'k [u8]) -> Self {
        Target {
            user_key: user_key(internal_key),
            trailer: trailer(internal_key),
        }
    }
}

/// A node of a list borrowed for `'a`. Invariant: the pointer is to a complete node of that list
/// (points 1 and 2), with provenance over its whole allocation.
#[derive(Clone, Copy)]
pub(super) struct NodeRef<'a> {
    node: NonNull<Node>,
    list: PhantomData<&'a SkipList>,
}

impl<'a> NodeRef<'a> {
    /// # Safety
    /// `node` is null or a complete node of a list that outlives `'a`.
    #[inline]
    unsafe fn from_raw(node: *mut Node) -> Option<Self> {
        NonNull::new(node).map(|node| NodeRef {
            node,
            list: PhantomData,
        })
    }

    /// # Safety
    /// The node is higher than `level`.
    #[inline]
    unsafe fn link(self, level: usize) -> &'a Link {
        // SAFETY: the links of a node lie at descending addresses from its own, `level` is one of
        // them by the caller's promise, and they live as long as the list (point 1).
        unsafe { self.node.cast::<Link>().sub(level).as_ref() }
    }

    /// # Safety
    /// The node is higher than `level`.
    #[inline]
    unsafe fn next(self, level: usize) -> Option<NodeRef<'a>> {
        // SAFETY: passed on; links hold null or nodes of the same list, published with release.
        unsafe { NodeRef::from_raw(self.link(level).load(Ordering::Acquire)) }
    }

    #[inline]
    fn lengths(self) -> (usize, usize) {
        let node = self.node.as_ptr();
        // SAFETY: the node is complete and its lengths never change (points 2 and 3). Fields are
        // read through the pointer, so no reference narrows its provenance.
        unsafe { ((*node).key_len as usize, (*node).value_len as usize) }
    }

    /// The internal key.
    #[inline]
    pub(super) fn key(self) -> &'a [u8] {
        let (key_len, _) = self.lengths();
        // SAFETY: the key follows the fixed part in the same allocation, is initialised and never
        // changes, and lives as long as the list (points 1 to 3).
        unsafe {
            let start = self.node.as_ptr().cast::<u8>().add(size_of::<Node>());
            std::slice::from_raw_parts(start, key_len)
        }
    }

    /// The value.
    #[inline]
    pub(super) fn value(self) -> &'a [u8] {
        let (key_len, value_len) = self.lengths();
        // SAFETY: as for the key, which the value follows.
        unsafe {
            let start = self
                .node
                .as_ptr()
                .cast::<u8>()
                .add(size_of::<Node>() + key_len);
            std::slice::from_raw_parts(start, value_len)
        }
    }
}

impl PartialEq for NodeRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
    }
}

/// The two nodes of one level between which a target belongs.
#[derive(Clone, Copy)]
struct Gap<'a> {
    before: NodeRef<'a>,
    after: Option<NodeRef<'a>>,
    /// Whether `after` has exactly the key searched for.
    found: bool,
}

impl SkipList {
    /// An empty list whose arena uses chunks of at most `max_chunk` bytes.
    pub(super) fn new(comparator: InternalKeyComparator, max_chunk: u64) -> Self {
        let arena = Arena::new(max_chunk);
        let head = new_node(
            &arena,
            MAX_HEIGHT,
            Target {
                user_key: b"",
                trailer: 0,
            },
            b"",
        );
        SkipList {
            comparator,
            head,
            height: AtomicUsize::new(1),
            tail: array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            tickets: AtomicU64::new(0),
            arena,
        }
    }

    /// Bytes obtained from the system for the nodes.
    pub(super) fn allocated(&self) -> u64 {
        self.arena.allocated()
    }

    /// The order of the entries.
    pub(super) fn comparator(&self) -> &InternalKeyComparator {
        &self.comparator
    }

    /// Adds an entry and returns it; returns `None`, and leaves the list as it was, if the key is
    /// there already. Key (with trailer) and value must not be longer than [`MAX_LEN`].
    #[must_use]
    pub(super) fn insert(&self, key: Target<'_>, value: &[u8]) -> Option<NodeRef<'_>> {
        let height = self.draw_height();
        let mut gaps = [Gap {
            before: self.head(),
            after: None,
            found: false,
        }; MAX_HEIGHT];
        if !self.gaps_at_tail(key, height, &mut gaps) {
            self.gaps_from_top(key, &mut gaps);
        }
        if gaps[0].found {
            return None;
        }
        let node = new_node(&self.arena, height, key, value);
        let node_ref = NodeRef {
            node,
            list: PhantomData,
        };
        for (level, gap) in gaps.iter_mut().enumerate().take(height) {
            loop {
                let after = gap
                    .after
                    .map_or(ptr::null_mut(), |after| after.node.as_ptr());
                // SAFETY: level < height. Relaxed: the release below publishes it.
                unsafe { node_ref.link(level) }.store(after, Ordering::Relaxed);
                // SAFETY: `before` was reached at this level (point 4).
                let link = unsafe { gap.before.link(level) };
                // Failure is relaxed because the walk below loads the link again, with acquire.
                let swap = link.compare_exchange(
                    after,
                    node.as_ptr(),
                    Ordering::Release,
                    Ordering::Relaxed,
                );
                if swap.is_ok() {
                    break;
                }
                // SAFETY: as above.
                *gap = unsafe { self.walk(gap.before, level, key, None) };
                if level == 0 && gap.found {
                    return None; // another thread was first; the node stays unreachable
                }
            }
            if gap.after.is_none() {
                // Point 4: the node is higher than `level`; point 2: release.
                self.tail[level].store(node.as_ptr(), Ordering::Release);
            }
        }
        if height > self.height.load(Ordering::Relaxed) {
            self.height.fetch_max(height, Ordering::Relaxed);
        }
        Some(node_ref)
    }

    /// Whether an older entry of the same user key follows `node`; one comparison.
    pub(super) fn has_older(&self, node: NodeRef<'_>) -> bool {
        // SAFETY: every node has level 0.
        let Some(older) = (unsafe { node.next(0) }) else {
            return false;
        };
        let [key, older] = [node, older].map(|node| user_key(node.key()));
        self.comparator.compare_user(key, older).is_eq()
    }

    /// The first entry not before `target`.
    pub(super) fn first_at_or_after(&self, target: Target<'_>) -> Option<NodeRef<'_>> {
        self.gap_at_bottom(target).after
    }

    /// The last entry before `target`.
    pub(super) fn last_before(&self, target: Target<'_>) -> Option<NodeRef<'_>> {
        self.not_head(self.gap_at_bottom(target).before)
    }

    /// The last entry not after `target`.
    pub(super) fn last_at_or_before(&self, target: Target<'_>) -> Option<NodeRef<'_>> {
        let gap = self.gap_at_bottom(target);
        if gap.found {
            gap.after
        } else {
            self.not_head(gap.before)
        }
    }

    /// The first entry.
    pub(super) fn first(&self) -> Option<NodeRef<'_>> {
        // SAFETY: every node has level 0.
        unsafe { self.head().next(0) }
    }

    /// The last entry.
    pub(super) fn last(&self) -> Option<NodeRef<'_>> {
        let mut node = self.head();
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            // SAFETY: the head has all levels; other nodes were reached at this one or a higher.
            while let Some(next) = unsafe { node.next(level) } {
                node = next;
            }
        }
        self.not_head(node)
    }

    #[inline]
    fn head(&self) -> NodeRef<'_> {
        NodeRef {
            node: self.head,
            list: PhantomData,
        }
    }

    fn not_head<'a>(&'a self, node: NodeRef<'a>) -> Option<NodeRef<'a>> {
        (node.node != self.head).then_some(node)
    }

    #[inline]
    fn compare(&self, node: NodeRef<'_>, target: Target<'_>) -> Order {
        let key = node.key();
        let users = self.comparator.compare_user(user_key(key), target.user_key);
        users.then_with(|| target.trailer.cmp(&trailer(key)))
    }

    /// Walks along `level` to the position of `target`. `above` is the gap of the level above: its
    /// `after` is not compared a second time where it bounds this level, too.
    ///
    /// # Safety
    /// `from` is higher than `level`, and before `target` (or the head).
    #[inline]
    unsafe fn walk<'a>(
        &'a self,
        from: NodeRef<'a>,
        level: usize,
        target: Target<'_>,
        above: Option<Gap<'a>>,
    ) -> Gap<'a> {
        let mut before = from;
        loop {
            // SAFETY: `before` is `from` or was reached at this level (point 4).
            let Some(next) = (unsafe { before.next(level) }) else {
                return Gap {
                    before,
                    after: None,
                    found: false,
                };
            };
            if let Some(above) = above
                && above.after == Some(next)
            {
                return Gap { before, ..above };
            }
            match self.compare(next, target) {
                Order::Less => before = next,
                order => {
                    return Gap {
                        before,
                        after: Some(next),
                        found: order == Order::Equal,
                    };
                }
            }
        }
    }

    /// The gap at level 0.
    #[inline]
    fn gap_at_bottom(&self, target: Target<'_>) -> Gap<'_> {
        let mut gap = Gap {
            before: self.head(),
            after: None,
            found: false,
        };
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            // SAFETY: the head has all levels; other nodes were reached at this one or a higher.
            gap = unsafe { self.walk(gap.before, level, target, Some(gap)) };
        }
        gap
    }

    /// The gaps of all levels in use; those above are left as they are.
    fn gaps_from_top<'a>(&'a self, target: Target<'_>, gaps: &mut [Gap<'a>; MAX_HEIGHT]) {
        let mut gap = Gap {
            before: self.head(),
            after: None,
            found: false,
        };
        let height = self.height.load(Ordering::Relaxed);
        for (level, out) in gaps.iter_mut().enumerate().take(height).rev() {
            // SAFETY: the head has all levels; other nodes were reached at this one or a higher.
            gap = unsafe { self.walk(gap.before, level, target, Some(gap)) };
            *out = gap;
        }
    }

    /// The gaps of the levels below `height`, if the target is after the tails of all of them.
    #[inline]
    fn gaps_at_tail<'a>(
        &'a self,
        target: Target<'_>,
        height: usize,
        gaps: &mut [Gap<'a>; MAX_HEIGHT],
    ) -> bool {
        for (level, (gap, tail)) in gaps.iter_mut().zip(&self.tail).enumerate().take(height) {
            // SAFETY: tails are null or complete nodes of this list, stored with release.
            let from = match unsafe { NodeRef::from_raw(tail.load(Ordering::Acquire)) } {
                Some(tail) if self.compare(tail, target) == Order::Less => tail,
                Some(_) => return false,
                None if level == 0 => return false,
                None => self.head(),
            };
            // SAFETY: `tail[level]` is higher than `level` (point 4), and so is the head.
            *gap = unsafe { self.walk(from, level, target, None) };
        }
        true
    }

    /// A height from 1 to [`MAX_HEIGHT`], each level a quarter as likely as the one below.
    #[inline]
    fn draw_height(&self) -> usize {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        // The finisher of a well-known mixer (splitmix64): every bit depends on every ticket bit.
        let mut z = ticket.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (1 + (z.trailing_zeros() / BRANCHING_BITS) as usize).min(MAX_HEIGHT)
    }
}

/// A complete node, not linked anywhere.
fn new_node(arena: &Arena, height: usize, key: Target<'_>, value: &[u8]) -> NonNull<Node> {
    let key_len = key.user_key.len() + TRAILER_LEN;
    // A wrong length must not become a wrong slice later: checked in release builds, too.
    assert!(
        key_len <= MAX_LEN && value.len() <= MAX_LEN,
        "entry too large for the memtable"
    );
    assert!((1..=MAX_HEIGHT).contains(&height));
    let upper_links = (height - 1) * size_of::<Link>();
    let memory = arena.allocate(upper_links + size_of::<Node>() + key_len + value.len());
    // SAFETY: the allocation has exactly room for `height - 1` links, the fixed part, key, trailer
    // and value, in this order; it is aligned to 8, which suffices for links and the fixed part,
    // and no other thread knows it yet, so plain writes do not race. The sources are borrowed
    // slices and cannot overlap fresh memory.
    unsafe {
        let node = memory.add(upper_links).cast::<Node>();
        for level in 1..height {
            node.cast::<Link>()
                .sub(level)
                .write(Link::new(ptr::null_mut()));
        }
        node.write(Node {
            link: Link::new(ptr::null_mut()),
            key_len: key_len as u32,
            value_len: value.len() as u32,
        });
        let bytes = node.cast::<u8>().as_ptr().add(size_of::<Node>());
        let user_len = key.user_key.len();
        ptr::copy_nonoverlapping(key.user_key.as_ptr(), bytes, user_len);
        let trailer = key.trailer.to_le_bytes();
        ptr::copy_nonoverlapping(trailer.as_ptr(), bytes.add(user_len), TRAILER_LEN);
        ptr::copy_nonoverlapping(value.as_ptr(), bytes.add(key_len), value.len());
        node
    }
}

/// A position in a list, which it keeps alive.
pub(super) struct SkipListCursor {
    /// `None` where not on an entry; else a complete node of `list`.
    node: Option<NonNull<Node>>,
    list: Arc<SkipList>,
}

// SAFETY: the node is owned by `list`, which is `Send` and `Sync`, and may be read from any thread.
unsafe impl Send for SkipListCursor {}
// SAFETY: as above; a shared cursor is only read.
unsafe impl Sync for SkipListCursor {}

impl SkipListCursor {
    pub(super) fn new(list: Arc<SkipList>) -> Self {
        SkipListCursor { node: None, list }
    }

    /// The entry under the cursor.
    #[inline]
    pub(super) fn entry(&self) -> Option<NodeRef<'_>> {
        // Point 1: `list` outlives the borrow of `self`.
        self.node.map(|node| NodeRef {
            node,
            list: PhantomData,
        })
    }

    /// Moves to the node that `find` returns.
    pub(super) fn move_to(&mut self, find: impl FnOnce(&SkipList) -> Option<NodeRef<'_>>) {
        self.node = find(&self.list).map(|found| found.node);
    }

    /// Moves to the following entry.
    #[inline]
    pub(super) fn next(&mut self) {
        // SAFETY: every node has level 0.
        self.node = self
            .entry()
            .and_then(|entry| unsafe { entry.next(0) })
            .map(|next| next.node);
    }

    /// Moves to the previous entry, by a search: nodes have no links back.
    pub(super) fn prev(&mut self) {
        let list = &self.list;
        let previous = self
            .entry()
            .and_then(|entry| list.last_before(Target::of(entry.key())));
        self.node = previous.map(|previous| previous.node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::BytewiseComparator;

    /// Threads that meet at the end can leave tails that are not the last nodes of their level.
    #[test]
    fn a_stale_tail_is_only_slower() {
        let list = SkipList::new(InternalKeyComparator::new(Arc::new(BytewiseComparator)), 0);
        let insert = |key: u64| {
            list.insert(
                Target {
                    user_key: &key.to_be_bytes(),
                    trailer: 1,
                },
                &key.to_le_bytes(),
            )
        };
        let (mut expected, seed) = (std::collections::BTreeSet::new(), 5);
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..2000 {
            for (level, tail) in list.tail.iter().enumerate() {
                // SAFETY: the head has all levels.
                let first = unsafe { list.head().link(level) }.load(Ordering::Acquire);
                tail.store(first, Ordering::Release);
            }
            let key = rng.u64(..5000);
            let is_new = expected.insert(key);
            assert_eq!(insert(key).is_some(), is_new, "{key}, seed {seed}");
        }
        let mut cursor = SkipListCursor::new(Arc::new(list));
        cursor.move_to(SkipList::first);
        for key in expected {
            let entry = cursor.entry().unwrap();
            assert_eq!(user_key(entry.key()), key.to_be_bytes(), "seed {seed}");
            assert_eq!(entry.value(), key.to_le_bytes(), "seed {seed}");
            cursor.next();
        }
        assert!(cursor.entry().is_none(), "seed {seed}");
    }
}
