//! One file: what reads see, what is certainly on the medium, and what lies between.

use std::collections::BTreeSet;
use std::io;

use super::content::{BLOCK, Content};
use super::op::Purpose;

/// Bytes of zeros by which a log is extended: more than the real implementation uses.
pub(super) const EXTENSION: u64 = 256 << 10;

/// A file's bytes in the page cache (`now`) and on the medium as of its last sync.
#[derive(Clone, Default)]
pub(super) struct File {
    now: Content,
    medium: Content,
    /// Blocks written since the last sync: each may or may not be on the medium.
    dirty: BTreeSet<usize>,
    /// Blocks a failed sync dropped: they never reach the medium, although later syncs succeed.
    lost: BTreeSet<usize>,
    purpose: Purpose,
    /// For a bulk file: its length at the last sync. Later bytes are in the memory of the
    /// process.
    handed_over: u64,
    /// For a log: where the zeros end, as long as it is open.
    extended: u64,
}

impl File {
    /// An empty file, not on the medium.
    pub(super) fn new(purpose: Purpose) -> Self {
        File {
            purpose,
            ..File::default()
        }
    }

    /// A file that is on the medium with this content.
    pub(super) fn durable(content: Content) -> Self {
        File {
            now: content.clone(),
            medium: content,
            ..File::default()
        }
    }

    /// All appended bytes.
    pub(super) fn now(&self) -> &Content {
        &self.now
    }

    /// Reads the bytes that programs see.
    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if offset.saturating_add(buf.len() as u64) > self.handed_over {
            self.check_handed_over()?;
        }
        Ok(self.now.read_at(offset, buf))
    }

    /// The size that programs see.
    pub(super) fn size(&self) -> io::Result<u64> {
        self.check_handed_over()?;
        Ok(self.now.len())
    }

    fn check_handed_over(&self) -> io::Result<()> {
        if self.purpose == Purpose::Bulk && self.now.len() > self.handed_over {
            return Err(io::Error::other(format!(
                "bulk file used before its sync: only {} of {} bytes are synced",
                self.handed_over,
                self.now.len()
            )));
        }
        Ok(())
    }

    /// Whether a crash of the machine changes nothing.
    pub(super) fn is_durable(&self) -> bool {
        self.dirty.is_empty()
            && self.lost.is_empty()
            && self.now.len() == self.medium.len()
            && self.purpose != Purpose::Log
    }

    pub(super) fn append(&mut self, data: &[u8]) {
        self.dirty.extend(self.now.append(data));
        if self.purpose == Purpose::Log && self.now.len() > self.extended {
            self.extended = self.now.len() + EXTENSION;
        }
    }

    /// Writes at any offset.
    pub(super) fn write_at(&mut self, offset: u64, data: &[u8]) {
        if offset > self.now.len() {
            self.set_len(offset);
        }
        self.dirty.extend(self.now.write_at(offset, data));
    }

    /// Truncates the file, or extends it with zeros. What the medium has there is old until a sync.
    pub(super) fn set_len(&mut self, len: u64) {
        let shorter = self.now.len().min(len) as usize;
        self.now.resize(len);
        self.dirty.split_off(&self.now.blocks());
        // The block that is cut or extended changes, and the new ones do.
        self.dirty.extend(shorter / BLOCK..self.now.blocks());
    }

    /// Bytes occupied on the device if everything was synced.
    pub(super) fn allocated(&self) -> io::Result<u64> {
        self.check_handed_over()?;
        Ok(self.now.allocated())
    }

    pub(super) fn punch_hole(&mut self, offset: u64, len: u64) {
        let range = offset..offset.saturating_add(len);
        self.dirty.extend(self.now.punch_hole(range));
    }

    /// Empties the file, as opening it for creation does; its old bytes stay on the medium until
    /// a sync.
    pub(super) fn clear(&mut self, purpose: Purpose) {
        *self = File {
            medium: std::mem::take(&mut self.medium),
            ..File::new(purpose)
        };
    }

    /// Truncates the zeros at the end of a log.
    pub(super) fn close(&mut self) {
        self.extended = 0;
    }

    /// A successful sync: the size and the dirty blocks reach the medium, except lost ones.
    pub(super) fn sync(&mut self) {
        self.handed_over = self.now.len();
        self.medium.resize(self.now.len());
        for index in std::mem::take(&mut self.dirty) {
            if !self.lost.contains(&index) {
                self.medium.take_block(index, &self.now);
            }
        }
    }

    /// All bytes are written again and synced, also those of which an earlier sync failed.
    pub(super) fn rewrite(&mut self) {
        self.dirty.append(&mut self.lost);
        self.sync();
    }

    /// A failed sync: the kernel marks the pages clean, so they are never written.
    pub(super) fn fail_sync(&mut self) {
        self.lost.append(&mut self.dirty);
    }

    /// Whether a crash of the process changes the file.
    pub(super) fn needs_its_process(&self) -> bool {
        self.purpose != Purpose::Any
    }

    /// The file after its process has ended.
    pub(super) fn abandoned(&self) -> Self {
        let mut file = self.clone();
        file.purpose = Purpose::Any;
        match self.purpose {
            Purpose::Any => {}
            Purpose::Log => {
                let zeros = self.extended.saturating_sub(self.now.len());
                file.append(&vec![0; zeros as usize]);
            }
            Purpose::Bulk => {
                file.now.resize(self.handed_over);
                let gone = file.now.blocks();
                file.dirty.split_off(&gone);
                file.lost.split_off(&gone);
            }
        }
        file
    }

    /// The file if nothing unsynced reached the medium.
    pub(super) fn synced_only(&self) -> Self {
        Self::durable(self.medium.clone())
    }

    /// The file if an arbitrary part of the unsynced state reached the medium.
    pub(super) fn partly_synced(&self, rng: &mut fastrand::Rng) -> Self {
        let (old, new) = (self.medium.len(), self.now.len());
        let len = match rng.u8(..4) {
            0 => old,
            1 | 2 => new,
            _ => rng.u64(old.min(new)..=old.max(new)),
        };
        let mut content = self.medium.clone();
        content.resize(len);
        // With one fixed probability "all" or "none" of many blocks would hardly ever be drawn.
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
            if torn && Some(index) == last && !self.now.is_hole(index) {
                // Somewhere in the new bytes of the block, if these are known.
                let within = |size: u64| (size as usize).saturating_sub(index * BLOCK).min(BLOCK);
                let (end, start) = (within(len), within(old));
                let start = if start < end { start } else { 0 };
                content.take_prefix(index, &self.now, rng.usize(start..=end));
            } else {
                content.take_block(index, &self.now);
            }
        }
        if self.purpose == Purpose::Log && rng.bool() {
            content.append(&vec![0; rng.u64(1..=EXTENSION) as usize]);
        }
        Self::durable(content)
    }
}
