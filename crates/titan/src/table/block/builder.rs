//! Builds a block: prefix-compressed entries, restart points, count. See [`crate::table::block`]
//! for the layout.

use crate::format::bytes::common_prefix;
use crate::format::coding::{MAX_VARINT64_LEN, put_varint};

/// Builds one block after another, reusing its buffers.
pub(in crate::table) struct BlockBuilder {
    interval: usize,
    buffer: Vec<u8>,
    restarts: Vec<u32>,
    /// Entries since the last restart point.
    since_restart: usize,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// `interval` entries share one restart point; at least 1.
    pub(in crate::table) fn new(interval: usize) -> Self {
        BlockBuilder {
            interval: interval.max(1),
            buffer: Vec::new(),
            restarts: vec![0],
            since_restart: 0,
            last_key: Vec::new(),
        }
    }

    /// Appends an entry. The caller guarantees that keys ascend.
    pub(in crate::table) fn add(&mut self, key: &[u8], value: &[u8]) {
        let shared = if self.since_restart >= self.interval {
            self.restarts.push(self.buffer.len() as u32);
            self.since_restart = 0;
            0
        } else {
            common_prefix(&self.last_key, key)
        };
        let fresh = key.get(shared..).unwrap_or_default();
        put_varint(&mut self.buffer, shared as u64);
        put_varint(&mut self.buffer, fresh.len() as u64);
        put_varint(&mut self.buffer, value.len() as u64);
        self.buffer.extend_from_slice(fresh);
        self.buffer.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(fresh);
        self.since_restart += 1;
    }

    /// The block's size if it were finished now, in bytes.
    pub(in crate::table) fn size(&self) -> usize {
        self.buffer.len() + 4 * self.restarts.len() + 4
    }

    /// An upper bound of the bytes that one more entry adds.
    pub(in crate::table) fn cost_of(key: &[u8], value: &[u8]) -> usize {
        key.len() + value.len() + 3 * MAX_VARINT64_LEN / 2
    }

    pub(in crate::table) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Completes the block and returns it. Call [`BlockBuilder::reset`] before the next one.
    pub(in crate::table) fn finish(&mut self) -> &[u8] {
        for restart in &self.restarts {
            self.buffer.extend_from_slice(&restart.to_le_bytes());
        }
        self.buffer
            .extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        &self.buffer
    }

    /// Starts the next block.
    pub(in crate::table) fn reset(&mut self) {
        self.buffer.clear();
        self.restarts.clear();
        self.restarts.push(0);
        self.since_restart = 0;
        self.last_key.clear();
    }
}
