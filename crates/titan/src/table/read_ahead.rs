//! Reading ahead of a cursor that walks from block to block.
//!
//! A seek wants one block, and tables are opened so that the kernel reads no more than that. A cursor
//! that has gone on to its neighbours is likely to go further: from the third block in a row on, the
//! kernel is asked for those that follow, twice as many bytes each time, as RocksDB does it for walks
//! forward (`max_auto_readahead_size`). Blocks in the block cache ask for nothing.
//!
//! Nothing is kept here. What was asked for in vain, where a walk ends, costs the kernel's cache up to
//! one and a half times [`MAX`]; bounds of an iterator are not known here. A kernel that reads less at
//! once than it is asked for, as Linux does by the device's limits, leaves the rest to ordinary reads.

use super::block_io::BlockSource;
use super::footer::BlockHandle;

/// Steps from a block to its neighbour that make a walk. A seek that falls off the end of its block
/// makes one.
const STEPS: u32 = 2;

/// Bytes asked for at first, beyond the block that is wanted.
const FIRST: u64 = 16 << 10;

/// Bytes asked for at once at most, beyond the block that is wanted.
const MAX: u64 = 256 << 10;

/// What is known of a cursor's walk.
#[derive(Default)]
pub(super) struct ReadAhead {
    backward: bool,
    /// Steps to a neighbour so far.
    steps: u32,
    /// None as long as nothing was asked for.
    asked: Option<Asked>,
}

/// What the kernel was asked for last.
#[derive(Clone, Copy)]
struct Asked {
    /// Bytes.
    amount: u64,
    /// Where it ends, in the direction of the walk.
    edge: u64,
}

impl ReadAhead {
    /// Notes that the cursor goes from block `from` to block `to`.
    pub(super) fn step(&mut self, from: Option<usize>, to: usize, backward: bool) {
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

    /// To be called before the block at `handle` is read: asks for it and for what follows, so that
    /// the device gets both together. `limit` is where data blocks end.
    pub(super) fn prefetch(&mut self, source: &BlockSource, handle: BlockHandle, limit: u64) {
        if self.steps < STEPS {
            return;
        }
        let Ok(len) = handle.stored_len(source.limit) else {
            return;
        };
        let (start, end) = (handle.offset, handle.offset + len as u64);
        // A walk that has gone past it over cached blocks starts small again: the next are likely to
        // be cached, too.
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
