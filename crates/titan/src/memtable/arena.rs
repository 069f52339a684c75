//! Memory for one memtable: allocated piece by piece, freed all at once.
//!
//! Owns: every byte of the memtable's entries. Promises: pieces are 8-byte aligned, never overlap,
//! never move and stay valid until the arena is dropped; allocation is safe from any number of
//! threads and takes a lock only where a new chunk is needed. Assumes nothing.
//!
//! # Chunks
//!
//! Small pieces are cut from the *current* chunk by adding to its `used` counter. The first chunk
//! has 4 KiB, so that an idle column family costs little; each later one doubles, up to a bound
//! given by the owner. A piece larger than a quarter of a chunk gets a chunk of exactly its own
//! size, so that no more than a quarter of a chunk is ever left unused at its end.
//!
//! Small chunks and the chunks of large pieces come from the allocator; other chunks are mapped
//! ([`mapping`](super::mapping) explains why).
//!
//! # Why the unsafe code is sound
//!
//! * *Pieces do not overlap.* `fetch_add` gives every caller of one chunk a different offset, and
//!   a piece is handed out only if it ends within the chunk. A counter beyond the capacity stays
//!   there: nothing decrements it. It cannot wrap around: after a failed attempt a thread takes
//!   the lock and the chunk is replaced, so the counter exceeds the capacity by at most one
//!   quarter of it per thread and attempt.
//! * *Chunks live as long as the arena.* They are recorded in `chunks` before any thread can see
//!   them and freed only in `drop`, which has exclusive access.
//! * *A chunk is seen complete.* `current` is stored with release and loaded with acquire.
//! * The arena itself never reads or writes the pieces; callers must justify their use of the
//!   pointers.

#![expect(
    unsafe_code,
    reason = "hands out raw memory; the module text gives the argument"
)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use super::mapping::Mapping;
use crate::sync::Mutex;
use crate::sync::lock_free::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Alignment of every piece; sizes are rounded up to it.
const ALIGN: usize = 8;
/// Alignment of chunks: a cache line, so that equal nodes cross cache lines alike in every chunk.
const CHUNK_ALIGN: usize = 64;
/// The size of the first chunk, and the lowest bound on chunks.
const MIN_CHUNK: usize = 4 << 10;
/// The highest bound on chunks.
const MAX_CHUNK: usize = 2 << 20;
/// Shared chunks from this size on are mapped.
const MIN_MAPPED: usize = 256 << 10;
/// Pieces larger than this fraction of a chunk get one of their own.
const LARGE_FRACTION: usize = 4;

/// See the module.
pub(super) struct Arena {
    current: AtomicPtr<Chunk>,
    chunks: Mutex<Chunks>,
    allocated: AtomicU64,
    max_chunk: usize,
}

struct Chunks {
    all: Vec<NonNull<Chunk>>,
    next_capacity: usize,
}

struct Chunk {
    base: NonNull<u8>,
    capacity: usize,
    /// None if the memory is from the allocator.
    mapping: Option<Mapping>,
    used: AtomicUsize,
}

// SAFETY: chunks are reached through `&Arena` only to use their atomic counter and their constant
// fields; a mutex protects the list of them; `drop` has exclusive access. Nothing is bound to the
// thread that created it.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena whose chunks have at most about `max_chunk` bytes (clamped to 4 KiB .. 2 MiB).
    pub(super) fn new(max_chunk: u64) -> Self {
        let max_chunk = max_chunk.clamp(MIN_CHUNK as u64, MAX_CHUNK as u64) as usize;
        let first = Chunk::new(MIN_CHUNK, false);
        Arena {
            current: AtomicPtr::new(first.as_ptr()),
            chunks: Mutex::new(Chunks {
                all: vec![first],
                next_capacity: (2 * MIN_CHUNK).min(max_chunk),
            }),
            allocated: AtomicU64::new(Chunk::footprint(MIN_CHUNK)),
            max_chunk,
        }
    }

    /// Allocates `size` uninitialised bytes for this caller alone, 8-byte aligned, valid until the
    /// arena is dropped. Aborts, as all allocation does, when the system has no memory.
    #[inline]
    pub(super) fn allocate(&self, size: usize) -> NonNull<u8> {
        let size = size.next_multiple_of(ALIGN);
        let piece = match self.current().try_take(size) {
            Some(piece) => piece,
            None => self.allocate_chunk(size),
        };
        invariant!(
            piece.as_ptr().addr().is_multiple_of(ALIGN),
            "a piece of {size} bytes is not aligned"
        );
        piece
    }

    /// Bytes obtained from the system, whether handed out yet or not.
    pub(super) fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Relaxed)
    }

    #[inline]
    fn current(&self) -> &Chunk {
        // SAFETY: `current` always points to a chunk in `chunks.all`, complete before the release
        // store that this acquire load reads, and freed only when the arena is dropped. Chunks are
        // only ever used through shared references.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    #[cold]
    fn allocate_chunk(&self, size: usize) -> NonNull<u8> {
        let mut chunks = self.chunks.lock();
        // Another thread may have installed a new chunk while this one waited.
        if let Some(piece) = self.current().try_take(size) {
            return piece;
        }
        let capacity = chunks.next_capacity;
        // Grow on large pieces, too: values of a few KiB should soon share chunks.
        chunks.next_capacity = (capacity * 2).min(self.max_chunk);
        let large = size > capacity / LARGE_FRACTION;
        let capacity = if large { size } else { capacity };
        let chunk = Chunk::new(capacity, !large && capacity >= MIN_MAPPED);
        chunks.all.push(chunk);
        self.allocated
            .fetch_add(Chunk::footprint(capacity), Ordering::Relaxed);
        // SAFETY: just created and recorded above; shared references only, from here on.
        let fresh = unsafe { chunk.as_ref() };
        let piece = fresh.take_first(size);
        if !large {
            self.current.store(chunk.as_ptr(), Ordering::Release);
        }
        piece
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in self.chunks.get_mut().all.drain(..) {
            // SAFETY: `Chunk::new` made the pointer from a box, it is in the list once, and with
            // exclusive access to the arena nothing else uses it.
            let chunk = unsafe { Box::from_raw(chunk.as_ptr()) };
            if chunk.mapping.is_none() {
                // SAFETY: `Chunk::new` allocated `base` with this layout; every piece of it is
                // gone, as pieces are valid only until the arena is dropped.
                unsafe { dealloc(chunk.base.as_ptr(), Chunk::layout(chunk.capacity)) };
            }
        }
    }
}

impl Chunk {
    fn new(capacity: usize, mapped: bool) -> NonNull<Chunk> {
        let layout = Self::layout(capacity);
        let mapping = mapped.then(|| Mapping::new(capacity)).flatten();
        let base = match &mapping {
            Some(mapping) => Some(mapping.base()),
            // SAFETY: the layout is not empty: capacities are MIN_CHUNK or more, or the size of a
            // piece larger than a quarter of that.
            None => NonNull::new(unsafe { alloc(layout) }),
        };
        let Some(base) = base else {
            handle_alloc_error(layout)
        };
        NonNull::from(Box::leak(Box::new(Chunk {
            base,
            capacity,
            mapping,
            used: AtomicUsize::new(0),
        })))
    }

    fn layout(capacity: usize) -> Layout {
        // Fails only for a size beyond `isize::MAX`, which no system can allocate either.
        Layout::from_size_align(capacity, CHUNK_ALIGN)
            .unwrap_or_else(|_| handle_alloc_error(Layout::new::<Chunk>()))
    }

    fn footprint(capacity: usize) -> u64 {
        (capacity + size_of::<Chunk>()) as u64
    }

    /// Cuts a piece off, unless it is large for this chunk or does not fit into the rest of it.
    #[inline]
    fn try_take(&self, size: usize) -> Option<NonNull<u8>> {
        if size > self.capacity / LARGE_FRACTION {
            return None;
        }
        // Relaxed: the counter only keeps pieces apart; callers publish the contents.
        let offset = self.used.fetch_add(size, Ordering::Relaxed);
        if offset > self.capacity || size > self.capacity - offset {
            return None;
        }
        // SAFETY: offset + size <= capacity, so the result is within the chunk's allocation.
        Some(unsafe { self.base.add(offset) })
    }

    /// The first piece of a chunk that no other thread can see yet; `size <= capacity`.
    fn take_first(&self, size: usize) -> NonNull<u8> {
        debug_assert!(size <= self.capacity && self.used.load(Ordering::Relaxed) == 0);
        self.used.store(size, Ordering::Relaxed);
        self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allocates a piece, fills it with `tag` and returns its address, size and tag.
    fn filled(arena: &Arena, size: usize, tag: u8) -> (usize, usize, u8) {
        let piece = arena.allocate(size);
        assert!(piece.as_ptr().addr().is_multiple_of(ALIGN));
        // SAFETY: the piece has `size` bytes and belongs to this caller.
        unsafe { piece.as_ptr().write_bytes(tag, size) };
        (piece.as_ptr().expose_provenance(), size, tag)
    }

    fn check(pieces: &mut [(usize, usize, u8)]) {
        pieces.sort();
        for pair in pieces.windows(2) {
            assert!(
                pair[0].0 + pair[0].1 <= pair[1].0,
                "pieces overlap: {pair:?}"
            );
        }
        for &(address, size, tag) in pieces.iter() {
            let start = std::ptr::with_exposed_provenance::<u8>(address);
            // SAFETY: `filled` initialised these bytes and the arena is still alive.
            let bytes = unsafe { std::slice::from_raw_parts(start, size) };
            assert!(
                bytes.iter().all(|&b| b == tag),
                "piece of {size} bytes was overwritten"
            );
        }
    }

    #[test]
    fn pieces_of_all_sizes_are_apart_and_accounted() {
        let seed = 7;
        for max_chunk in [64 << 10, 4 << 20] {
            pieces_are_apart_and_accounted(max_chunk, seed);
        }
    }

    fn pieces_are_apart_and_accounted(max_chunk: u64, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let arena = Arena::new(max_chunk);
        let mut pieces = Vec::new();
        let mut total = 0u64;
        for i in 0..3000 {
            let size = match i % 100 {
                0 => rng.usize(1..300_000),
                n if n < 10 => rng.usize(1..20_000),
                _ => rng.usize(1..200),
            };
            total += size as u64;
            pieces.push(filled(&arena, size, rng.u8(..)));
        }
        check(&mut pieces);
        assert!(arena.allocated() >= total, "seed {seed}");
        assert!(
            arena.allocated() < total * 3 / 2,
            "{} for {total}",
            arena.allocated()
        );
    }

    #[test]
    fn an_idle_arena_is_small_and_a_large_piece_costs_its_own_size() {
        let arena = Arena::new(u64::MAX);
        assert!(arena.allocated() < 5000);
        arena.allocate(10 << 20);
        assert!(arena.allocated() < (10 << 20) + 5000);
        assert_eq!(Arena::new(0).allocated(), Arena::new(u64::MAX).allocated());
    }

    #[test]
    fn threads_get_pieces_of_their_own() {
        let arena = Arena::new(16 << 10);
        let mut pieces = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4u8)
                .map(|worker| {
                    let arena = &arena;
                    scope.spawn(move || {
                        let mut rng = fastrand::Rng::with_seed(u64::from(worker));
                        let sizes =
                            (0..2000).map(|i| rng.usize(1..if i % 50 == 0 { 9000 } else { 90 }));
                        sizes
                            .map(|size| filled(arena, size, worker))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            workers
                .into_iter()
                .flat_map(|w| w.join().unwrap())
                .collect::<Vec<_>>()
        });
        assert_eq!(pieces.len(), 8000);
        check(&mut pieces);
    }
}
