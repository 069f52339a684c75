//! One file: what reads see, what the medium surely holds, and what lies between.

use std::collections::BTreeSet;

use super::content::{BLOCK, Content};

/// A file's bytes in the page cache (`now`) and on the medium as of its last sync.
#[derive(Clone, Default)]
pub(super) struct File {
    now: Content,
    medium: Content,
    /// Blocks written since the last sync: each may or may not be on the medium.
    dirty: BTreeSet<usize>,
    /// Blocks a failed sync dropped: they never reach the medium, whatever later syncs say.
    lost: BTreeSet<usize>,
}

impl File {
    /// A file that is on the medium as it is.
    pub(super) fn durable(content: Content) -> Self {
        File {
            now: content.clone(),
            medium: content,
            ..File::default()
        }
    }

    /// What reads see.
    pub(super) fn now(&self) -> &Content {
        &self.now
    }

    /// Whether a crash changes nothing.
    pub(super) fn is_durable(&self) -> bool {
        self.dirty.is_empty() && self.lost.is_empty() && self.now.len() == self.medium.len()
    }

    pub(super) fn append(&mut self, data: &[u8]) {
        self.dirty.extend(self.now.append(data));
    }

    /// Empties the file, as opening it for creation does; its old bytes stay on the medium until
    /// a sync.
    pub(super) fn clear(&mut self) {
        self.now = Content::default();
        self.dirty.clear();
        self.lost.clear();
    }

    /// A sync that succeeded: size and dirty blocks reach the medium, lost ones excepted.
    pub(super) fn sync(&mut self) {
        self.medium.resize(self.now.len());
        for index in std::mem::take(&mut self.dirty) {
            if !self.lost.contains(&index) {
                self.medium.take_block(index, &self.now);
            }
        }
    }

    /// A sync that failed: the kernel marks the pages clean, so they are never written.
    pub(super) fn fail_sync(&mut self) {
        self.lost.append(&mut self.dirty);
    }

    /// The file if nothing unsynced reached the medium.
    pub(super) fn synced_only(&self) -> Self {
        Self::durable(self.medium.clone())
    }

    /// The file if an arbitrary part of what is unsynced reached the medium.
    pub(super) fn partly_synced(&self, rng: &mut fastrand::Rng) -> Self {
        let (old, new) = (self.medium.len(), self.now.len());
        let len = match rng.u8(..4) {
            0 => old,
            1 | 2 => new,
            _ => rng.u64(old.min(new)..=old.max(new)),
        };
        let mut content = self.medium.clone();
        content.resize(len);
        // Coins of one bias would hardly ever draw "all" or "none" of many blocks.
        let likely = [0.0, 0.5, 0.9, 1.0][rng.usize(..4)];
        let reached = |index: &&usize| !self.lost.contains(index);
        let last = self
            .dirty
            .iter()
            .rfind(|&&index| ((index * BLOCK) as u64) < len)
            .copied();
        let torn = rng.u8(..4) == 0;
        for &index in self.dirty.iter().filter(reached) {
            if rng.f64() >= likely {
                continue;
            }
            if torn && Some(index) == last {
                // Somewhere in what is new in the block, if that can be told.
                let within = |size: u64| (size as usize).saturating_sub(index * BLOCK).min(BLOCK);
                let (end, start) = (within(len), within(old));
                let start = if start < end { start } else { 0 };
                content.take_prefix(index, &self.now, rng.usize(start..=end));
            } else {
                content.take_block(index, &self.now);
            }
        }
        Self::durable(content)
    }
}
