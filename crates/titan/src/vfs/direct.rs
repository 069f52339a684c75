//! Writes that bypass the kernel's cache.
//!
//! `O_DIRECT` requires positions, lengths and memory in whole blocks, so bytes are collected in an
//! aligned buffer that is written when it is full. A sync writes the rest, padded, and then
//! truncates the file to its length.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::OFlags;

use super::WritableFile;
use super::at::At;
use crate::error::{Error, Result};

/// Alignment of positions, lengths and memory: no device in use requires more.
const BLOCK: usize = 4096;

/// Bytes written at once.
const BUFFER: usize = 1 << 20;

/// A buffer that starts at a multiple of [`BLOCK`].
struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    fn new() -> Self {
        Self::of(BUFFER)
    }

    /// With room for so many bytes.
    fn of(room: usize) -> Self {
        let memory = vec![0; room + BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK).min(BLOCK);
        AlignedBuffer {
            memory,
            start,
            len: 0,
        }
    }

    /// Appends as much of `data` as fits; returns how many bytes that was.
    fn fill(&mut self, data: &[u8]) -> usize {
        let at = self.start + self.len;
        let n = data.len().min(self.memory.len() - BLOCK - self.len);
        if let (Some(room), Some(taken)) = (self.memory.get_mut(at..at + n), data.get(..n)) {
            room.copy_from_slice(taken);
            self.len += n;
        }
        n
    }

    /// Replaces its first bytes by as many of `data`, as far as it has them.
    fn replace_start(&mut self, data: &[u8]) {
        let n = data.len().min(self.len);
        let old = self.memory.get_mut(self.start..self.start + n);
        if let (Some(old), Some(new)) = (old, data.get(..n)) {
            old.copy_from_slice(new);
        }
    }

    /// The content, padded with zeros to whole blocks.
    fn padded(&mut self) -> &[u8] {
        let end = self.start + self.len;
        let padded = self.start + self.len.next_multiple_of(BLOCK);
        if let Some(padding) = self.memory.get_mut(end..padded) {
            padding.fill(0);
        }
        self.memory.get(self.start..padded).unwrap_or_default()
    }

    /// Drops all whole blocks; the bytes of the last, partial one stay.
    fn keep_partial_block(&mut self) {
        let whole = self.len - self.len % BLOCK;
        self.memory
            .copy_within(self.start + whole..self.start + self.len, self.start);
        self.len -= whole;
    }
}

/// A file written with `O_DIRECT`.
pub(super) struct DirectFile {
    file: File,
    path: PathBuf,
    buffer: AlignedBuffer,
    /// Where in the file the buffer starts: a multiple of [`BLOCK`].
    written: u64,
}

impl DirectFile {
    /// Creates the file, or truncates it. `None` where the file system has no direct I/O.
    pub(super) fn create(at: At<'_>) -> Result<Option<Self>> {
        match at.create(OFlags::DIRECT) {
            Ok(file) => Ok(Some(DirectFile {
                file,
                path: at.path.to_owned(),
                buffer: AlignedBuffer::new(),
                written: 0,
            })),
            Err(e) if e.kind() == std::io::ErrorKind::InvalidInput => Ok(None),
            Err(e) => Err(Error::opening(e, "create file", at.path)),
        }
    }

    /// Writes the buffer, padded, at its position in the file.
    fn write_buffer(&mut self) -> Result<()> {
        let outcome = self.file.write_all_at(self.buffer.padded(), self.written);
        outcome.map_err(|e| Error::io(e, "append", &self.path))
    }
}

impl WritableFile for DirectFile {
    fn append(&mut self, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            let taken = self.buffer.fill(data);
            data = data.get(taken..).unwrap_or_default();
            if self.buffer.len == BUFFER {
                self.write_buffer()?;
                self.written += BUFFER as u64;
                self.buffer.len = 0;
            }
        }
        Ok(())
    }

    fn overwrite_start(&mut self, start: &[u8]) -> Result<()> {
        let written = start.len().min(self.written as usize);
        let (written, buffered) = start.split_at(written);
        self.buffer.replace_start(buffered);
        if written.is_empty() {
            return Ok(());
        }
        let mut aligned = AlignedBuffer::of(written.len());
        aligned.fill(written);
        let outcome = self.file.write_all_at(aligned.padded(), 0);
        outcome.map_err(|e| Error::io(e, "overwrite", &self.path))
    }

    fn sync(&mut self) -> Result<()> {
        let len = self.written + self.buffer.len as u64;
        self.write_buffer()?;
        let padded = mutant!(direct_padding_stays);
        let unsynced = mutant!(direct_file_not_synced);
        let cut = match padded {
            true => Ok(()),
            false => self.file.set_len(len),
        };
        let synced = cut.and_then(|()| match unsynced {
            true => Ok(()),
            false => self.file.sync_data(),
        });
        synced.map_err(|e| Error::io(e, "sync", &self.path))?;
        self.written += (self.buffer.len - self.buffer.len % BLOCK) as u64;
        self.buffer.keep_partial_block();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::requirement;
    use super::*;

    #[test]
    fn bytes_of_any_length_arrive_also_behind_a_sync() {
        // The system's temporary directory may not have direct I/O; the build directory's does.
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut rng = fastrand::Rng::with_seed(3);
        for case in 0..40 {
            let path = dir.path().join(format!("{case}"));
            let file = DirectFile::create(At::of_process(&path)).unwrap();
            let Some(mut file) = requirement::met("direct I/O", file.ok_or("O_DIRECT is refused"))
            else {
                return;
            };
            let mut expected = Vec::new();
            for _ in 0..rng.usize(..12) {
                let len = match rng.usize(..4) {
                    0 => rng.usize(..10),
                    1 => BLOCK * rng.usize(..4),
                    2 => rng.usize(..3 * BUFFER),
                    _ => BUFFER,
                };
                let piece: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(len).collect();
                file.append(&piece).unwrap();
                expected.extend_from_slice(&piece);
                if rng.bool() {
                    file.sync().unwrap();
                    assert!(std::fs::read(&path).unwrap() == expected, "case {case}");
                }
            }
            file.sync().unwrap();
            assert!(std::fs::read(&path).unwrap() == expected, "case {case}");
        }
    }

    #[test]
    fn the_start_is_replaced_wherever_it_is() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        for (len, is_synced) in [
            (BLOCK, false),
            (BLOCK, true),
            (BUFFER + 5, false),
            (3 * BUFFER, true),
        ] {
            let path = dir.path().join("file");
            let Some(mut file) = DirectFile::create(At::of_process(&path)).unwrap() else {
                eprintln!("skipped: no direct I/O here");
                return;
            };
            let mut expected = vec![1; len];
            file.append(&expected).unwrap();
            if is_synced {
                file.sync().unwrap();
            }
            file.overwrite_start(&[2; BLOCK]).unwrap();
            expected[..BLOCK].fill(2);
            file.append(b"end").unwrap();
            expected.extend_from_slice(b"end");
            file.sync().unwrap();
            let found = std::fs::read(&path).unwrap();
            assert!(found == expected, "of {len} bytes");
        }
    }

    #[test]
    fn what_is_beyond_4_gib_is_where_it_belongs() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("huge");
        let Some(mut file) = DirectFile::create(At::of_process(&path)).unwrap() else {
            eprintln!("skipped: no direct I/O here");
            return;
        };
        // As if everything before had been written.
        let start = (1 << 32) - BLOCK as u64;
        file.written = start;
        let mut expected = Vec::new();
        for (byte, len) in [(1, 3 * BLOCK + 5), (2, BUFFER + 7), (3, 9)] {
            file.append(&vec![byte; len]).unwrap();
            file.sync().unwrap();
            expected.resize(expected.len() + len, byte);
        }
        let end = start + expected.len() as u64;
        assert_eq!(std::fs::metadata(&path).unwrap().len(), end);
        let mut found = vec![0; expected.len()];
        let reader = File::open(&path).unwrap();
        reader.read_exact_at(&mut found, start).unwrap();
        assert!(found == expected);
    }
}
