//! Reading ahead of a cursor that walks from block to block.
//!
//! A seek wants one block, and tables are opened so that the kernel reads no more than that. A cursor
//! that has gone on to its neighbours is likely to go further: from the third block in a row on, the
//! kernel is asked for those that follow, twice as many bytes each time. RocksDB does the same
//! (`num_file_reads_for_auto_readahead`, `max_auto_readahead_size`). Blocks in the block cache ask for
//! nothing, and nothing is kept here: what was asked for in vain costs the kernel's cache at most
//! [`MAX`] bytes.

use super::block_io::BlockSource;
use super::footer::BlockHandle;

/// Steps from a block to its neighbour that make a walk.
const STEPS: u32 = 2;

/// Bytes asked for at first.
const FIRST: u64 = 16 << 10;

/// Bytes asked for at once at most.
const MAX: u64 = 256 << 10;

/// What is known of a cursor's walk.
#[derive(Default)]
pub(super) struct ReadAhead {
    backward: bool,
    /// Steps to a neighbour so far.
    steps: u32,
    /// Bytes last asked for.
    amount: u64,
    /// Where what was asked for ends, in the direction of the walk.
    edge: Option<u64>,
}

impl ReadAhead {
    /// Notes that the cursor goes from block `from` to block `to`.
    pub(super) fn go(&mut self, from: Option<usize>, to: usize, backward: bool) {
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

    /// Asks for what will be wanted from the file, which the block at `handle` is about to be read
    /// from; before that is, so that the device may give both at once.
    pub(super) fn ask(&mut self, source: &BlockSource, handle: BlockHandle) {
        if self.steps < STEPS {
            return;
        }
        let Ok(len) = handle.stored_len(source.limit) else {
            return;
        };
        let (start, end) = (handle.offset, handle.offset + len as u64);
        let edge = self.edge.unwrap_or(if self.backward { end } else { start });
        let left = match self.backward {
            false => edge.saturating_sub(end),
            true => start.saturating_sub(edge),
        };
        if left > self.amount / 2 {
            return;
        }
        self.amount = (2 * self.amount).clamp(FIRST, MAX);
        // Blocks of the cache may have led the walk past what was asked for.
        let (from, to) = match self.backward {
            false => {
                let from = edge.max(start);
                (from, (from + self.amount).min(source.limit))
            }
            true => {
                let to = edge.min(end);
                (to.saturating_sub(self.amount), to)
            }
        };
        if from < to {
            source.file.prefetch(from, (to - from) as usize);
        }
        self.edge = Some(if self.backward { from } else { to });
    }
}
