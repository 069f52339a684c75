//! Readahead for a cursor that walks from block to block.
//!
//! A seek wants one block, and tables are opened so that the kernel reads no more than that. A
//! cursor that has moved on to its neighbours is likely to go further: from the third block in a
//! row on, the kernel is asked for those that follow, twice as many bytes each time, as RocksDB
//! does for forward walks (`max_auto_readahead_size`). Nothing is requested for blocks in the block
//! cache.
//!
//! No data is kept here. Where a walk ends, up to one and a half times [`MAX`] bytes in the
//! kernel's cache were requested in vain; the bounds of an iterator are not known here. If the
//! kernel reads less at once than requested, as Linux does because of the device's limits, ordinary
//! reads fetch the rest.

use crate::table::block::io::BlockSource;
use crate::table::footer::BlockHandle;

/// Steps from a block to its neighbour after which readahead starts. A seek that runs past the end
/// of its block makes one step.
const STEPS: u32 = 2;

/// Bytes of the first request, beyond the wanted block.
const FIRST: u64 = 16 << 10;

/// The most bytes of a request, beyond the wanted block.
const MAX: u64 = 256 << 10;

/// The state of a cursor's walk.
#[derive(Default)]
pub(in crate::table) struct ReadAhead {
    backward: bool,
    /// Steps to a neighbour so far.
    steps: u32,
    /// `None` before the first request.
    asked: Option<Asked>,
}

/// The last request to the kernel.
#[derive(Clone, Copy)]
struct Asked {
    /// Bytes.
    amount: u64,
    /// Where it ends, in the direction of the walk.
    edge: u64,
}

impl ReadAhead {
    /// Notes that the cursor goes from block `from` to block `to`.
    pub(in crate::table) fn step(&mut self, from: Option<usize>, to: usize, backward: bool) {
        let neighbour = from.is_some_and(|from| match backward {
            false => from + 1 == to,
            true => to + 1 == from,
        });
        if !neighbour || backward != self.backward {
            *self = ReadAhead {
                backward,
                ..Self::default()
            };
        }
        self.steps += u32::from(neighbour);
    }

    /// Requests the block at `handle` and the bytes after it, so that the device gets both
    /// together. Must be called before the block is read. `limit` is the end of the data blocks.
    pub(in crate::table) fn prefetch(
        &mut self,
        source: &BlockSource,
        handle: BlockHandle,
        limit: u64,
    ) {
        if self.steps < STEPS {
            return;
        }
        let Ok(len) = handle.stored_len(source.limit) else {
            return;
        };
        let (start, end) = (handle.offset, handle.offset + len as u64);
        // A walk that passed the requested bytes over cached blocks starts small again: the next
        // blocks are likely to be cached, too.
        let asked = self.asked.filter(|asked| match self.backward {
            false => start <= asked.edge,
            true => asked.edge <= end,
        });
        let mut amount = FIRST;
        if let Some(asked) = asked {
            let left = match self.backward {
                false => asked.edge.saturating_sub(end),
                true => start.saturating_sub(asked.edge),
            };
            if left > asked.amount / 2 {
                return;
            }
            amount = (2 * asked.amount).min(MAX);
        }
        let (from, to) = match self.backward {
            false => {
                let from = asked.map_or(start, |asked| asked.edge);
                (from, (from.max(end) + amount).min(limit))
            }
            true => {
                let to = asked.map_or(end, |asked| asked.edge);
                (to.min(start).saturating_sub(amount), to)
            }
        };
        if from < to {
            source.file.prefetch(from, (to - from) as usize);
        }
        let edge = if self.backward { from } else { to };
        self.asked = Some(Asked { amount, edge });
    }
}
