//! The bytes of a file, in shared blocks.
//!
//! Blocks are copied only when changed while shared, so that keeping a file's state at many
//! moments costs memory only for the blocks that differ.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// The unit in which unsynced bytes reach the medium.
pub(super) const BLOCK: usize = 4096;

/// A file's bytes. Every block but the last holds [`BLOCK`] bytes.
#[derive(Clone, Default)]
pub(super) struct Content {
    blocks: Vec<Arc<Vec<u8>>>,
    len: u64,
    /// Blocks of zeros that occupy no space.
    holes: BTreeSet<usize>,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The number of blocks.
    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Appends `data` and returns the blocks it touched.
    pub(super) fn append(&mut self, mut data: &[u8]) -> Range<usize> {
        let first = self.len as usize / BLOCK;
        self.len += data.len() as u64;
        while !data.is_empty() {
            if self.blocks.last().is_none_or(|b| b.len() == BLOCK) {
                self.blocks
                    .push(Arc::new(Vec::with_capacity(BLOCK.min(data.len()))));
            }
            let Some(last) = self.blocks.last_mut() else {
                break;
            };
            let (fits, rest) = data.split_at(data.len().min(BLOCK - last.len()));
            Arc::make_mut(last).extend_from_slice(fits);
            data = rest;
        }
        self.fill_holes(first..self.blocks.len());
        first..self.blocks.len()
    }

    /// Overwrites from `offset`, which is at most the length, extends the file as needed, and
    /// returns the blocks it touched.
    pub(super) fn write_at(&mut self, offset: u64, data: &[u8]) -> Range<usize> {
        let offset = offset.min(self.len) as usize;
        let (old, new) = data.split_at(data.len().min(self.len as usize - offset));
        let mut done = 0;
        while done < old.len() {
            let at = offset + done;
            let Some(block) = self.blocks.get_mut(at / BLOCK).map(Arc::make_mut) else {
                break;
            };
            let n = (block.len() - at % BLOCK).min(old.len() - done);
            block[at % BLOCK..at % BLOCK + n].copy_from_slice(&old[done..done + n]);
            done += n;
        }
        self.append(new);
        let touched = match data.is_empty() {
            true => 0..0,
            false => offset / BLOCK..(offset + data.len()).div_ceil(BLOCK),
        };
        self.fill_holes(touched.clone());
        touched
    }

    fn fill_holes(&mut self, blocks: Range<usize>) {
        if !self.holes.is_empty() {
            self.holes.retain(|index| !blocks.contains(index));
        }
    }

    /// Fills a range with zeros, frees the blocks that lie completely in it, and returns the
    /// blocks it touched.
    pub(super) fn punch_hole(&mut self, range: Range<u64>) -> Range<usize> {
        let end = range.end.min(self.len) as usize;
        let start = (range.start as usize).min(end);
        if start == end {
            return 0..0;
        }
        let touched = start / BLOCK..end.div_ceil(BLOCK);
        for index in touched.clone() {
            let first = index * BLOCK;
            let Some(block) = self.blocks.get_mut(index) else {
                break;
            };
            // The last block may be short; it lies completely in a range that extends past it.
            if range.start as usize <= first && range.end >= (first + BLOCK) as u64 {
                *block = Arc::new(vec![0; block.len()]);
                self.holes.insert(index);
            } else {
                let within = start.max(first) - first..end.min(first + BLOCK) - first;
                Arc::make_mut(block)[within].fill(0);
            }
        }
        touched
    }

    /// Whether a block occupies no space.
    pub(super) fn is_hole(&self, index: usize) -> bool {
        self.holes.contains(&index)
    }

    /// Bytes of the blocks that occupy space.
    pub(super) fn outside_holes(&self) -> u64 {
        let holes = self
            .holes
            .iter()
            .filter_map(|index| self.blocks.get(*index));
        self.len - holes.map(|block| block.len() as u64).sum::<u64>()
    }

    /// Bytes that the file occupies, in whole blocks.
    pub(super) fn allocated(&self) -> u64 {
        ((self.blocks.len() - self.holes.len()) * BLOCK) as u64
    }

    /// Truncates the file, or extends it with zeros.
    pub(super) fn resize(&mut self, len: u64) {
        let count = (len as usize).div_ceil(BLOCK);
        self.blocks.truncate(count);
        // Only the former last block can be short, so only it and new ones change.
        let from = self.blocks.len().saturating_sub(1);
        self.holes.split_off(&count);
        self.holes.extend(self.blocks.len()..count);
        self.blocks.resize_with(count, Arc::default);
        for (i, block) in self.blocks.iter_mut().enumerate().skip(from) {
            let want = (len as usize - i * BLOCK).min(BLOCK);
            if block.len() != want {
                Arc::make_mut(block).resize(want, 0);
            }
        }
        self.len = len;
    }

    /// Reads from `offset` into `buf`; returns fewer bytes than requested only at the end.
    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buf.len() {
            let at = offset as usize + done;
            let Some(have) = self
                .blocks
                .get(at / BLOCK)
                .and_then(|b| b.get(at % BLOCK..))
            else {
                break;
            };
            let n = have.len().min(buf.len() - done);
            if n == 0 {
                break;
            }
            buf[done..done + n].copy_from_slice(&have[..n]);
            done += n;
        }
        done
    }

    /// All bytes in one piece.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        self.blocks.iter().flat_map(|b| b.iter().copied()).collect()
    }

    /// Replaces block `index` by the other file's, shared if the lengths agree.
    pub(super) fn take_block(&mut self, index: usize, from: &Content) {
        let Some(new) = from.blocks.get(index) else {
            return;
        };
        match self.blocks.get_mut(index) {
            Some(old) if old.len() == new.len() => {
                *old = Arc::clone(new);
                match from.is_hole(index) {
                    true => self.holes.insert(index),
                    false => self.holes.remove(&index),
                };
            }
            _ => self.take_prefix(index, from, BLOCK),
        }
    }

    /// Overwrites at most the first `n` bytes of block `index` with the other file's, never past
    /// the end of this file.
    pub(super) fn take_prefix(&mut self, index: usize, from: &Content, n: usize) {
        if let (Some(old), Some(new)) = (self.blocks.get_mut(index), from.blocks.get(index)) {
            let n = n.min(old.len()).min(new.len());
            Arc::make_mut(old)[..n].copy_from_slice(&new[..n]);
            self.holes.remove(&index);
        }
    }
}

impl From<&[u8]> for Content {
    fn from(data: &[u8]) -> Self {
        let mut content = Content::default();
        content.append(data);
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_writes_reads_holes_and_resizes_agree_with_a_vector() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut content, mut bytes) = (Content::default(), Vec::new());
            for _ in 0..12 {
                if rng.u8(..4) == 0 && !bytes.is_empty() {
                    let (start, len) = (rng.usize(..bytes.len()), rng.usize(..20_000));
                    let before = content.outside_holes();
                    content.punch_hole(start as u64..(start + len) as u64);
                    let end = (start + len).min(bytes.len());
                    bytes[start..end].fill(0);
                    assert!(
                        content.outside_holes() + len as u64 >= before,
                        "seed {seed}"
                    );
                    assert!(content.outside_holes() <= before, "seed {seed}");
                } else if rng.u8(..4) == 0 {
                    let len = rng.usize(..=bytes.len() + 5000);
                    content.resize(len as u64);
                    bytes.resize(len, 0);
                } else {
                    let data: Vec<u8> = (0..rng.usize(..9000)).map(|_| rng.u8(..)).collect();
                    if rng.bool() {
                        content.append(&data);
                        bytes.extend(data);
                    } else {
                        let at = rng.usize(..=bytes.len());
                        let end = at + data.len();
                        let touched = content.write_at(at as u64, &data);
                        assert!(
                            data.is_empty() || touched.start * BLOCK <= at,
                            "seed {seed}"
                        );
                        assert!(data.is_empty() || touched.end * BLOCK >= end, "seed {seed}");
                        bytes.resize(bytes.len().max(end), 0);
                        bytes[at..end].copy_from_slice(&data);
                    }
                }
                assert_eq!(content.len(), bytes.len() as u64, "seed {seed}");
                assert!(
                    content.outside_holes() <= content.allocated(),
                    "seed {seed}"
                );
                assert!(content.to_vec() == bytes, "seed {seed}");
                let at = rng.usize(..=bytes.len());
                let mut buf = vec![0; rng.usize(..9000)];
                let n = content.read_at(at as u64, &mut buf);
                assert_eq!(n, buf.len().min(bytes.len() - at), "seed {seed}");
                assert!(buf[..n] == bytes[at..at + n], "seed {seed}");
            }
        }
    }

    #[test]
    fn a_clone_does_not_see_later_appends() {
        let mut content = Content::from(&b"abc"[..]);
        let old = content.clone();
        assert_eq!(content.append(b"d"), 0..1);
        assert_eq!(
            (old.to_vec(), content.to_vec()),
            (b"abc".to_vec(), b"abcd".to_vec())
        );
    }
}
