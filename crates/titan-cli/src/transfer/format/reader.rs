//! Reading an export, where every byte may be damaged and the end may be missing.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use titan::{Error, Result};

use super::block::{self, BlockHead};
use super::end::{self, End};
use super::header::{CHECKSUM, Header, MAGIC, PRELUDE};
use crate::transfer::pairs::{Pair, Summary, Totals};

/// Reads the blocks of an export in their order.
pub(crate) struct Reader {
    file: BufReader<File>,
    path: PathBuf,
    /// The length of the file when it was opened.
    length: u64,
    header: Header,
    state: State,
}

/// The part of an export that has been read.
#[derive(Clone)]
pub(super) struct State {
    /// The offset behind it.
    pub(super) offset: u64,
    pub(super) blocks: u64,
    pub(super) totals: Totals,
    pub(super) last_key: Option<Bytes>,
}

/// The next part of an export.
pub(super) enum Step {
    Block(Vec<Pair>),
    End,
    /// The file ends.
    Missing,
}

impl Reader {
    /// Opens an export and reads its header.
    ///
    /// # Errors
    /// `InvalidArgument` for a file of another kind, or one that ends within its header;
    /// `Unsupported` for another version of the format; `Corruption`; `Io`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::opening(e, "open the export", path))?;
        let found = Reader::of(file, path)?;
        found.ok_or_else(|| interrupted(0).in_file(path))
    }

    /// Reads the header of an open file. `None` if the file ends within it.
    pub(super) fn of(file: File, path: &Path) -> Result<Option<Self>> {
        let failed = |e| Error::io(e, "read the export", path);
        let length = file.metadata().map_err(failed)?.len();
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut bytes = Vec::new();
        let mut read = |bytes: &mut Vec<u8>, len: usize| {
            let read = file.by_ref().take(len as u64).read_to_end(bytes);
            read.map(|read| read == len).map_err(failed)
        };
        if !read(&mut bytes, PRELUDE)? {
            let known = bytes.len().min(MAGIC.len());
            return match bytes[..known] == MAGIC[..known] {
                true => Ok(None),
                false => Err(Error::invalid_argument("the file is not an export").in_file(path)),
            };
        }
        let prelude = bytes.first_chunk().copied().unwrap_or_default();
        let body = Header::body_length(&prelude).map_err(|e| e.in_file(path))?;
        if !read(&mut bytes, body as usize + CHECKSUM)? {
            return Ok(None);
        }
        let header = Header::decode(&bytes).map_err(|e| e.at(path, 0))?;
        let state = State {
            offset: bytes.len() as u64,
            blocks: 0,
            totals: Totals::default(),
            last_key: None,
        };
        Ok(Some(Reader {
            file,
            path: path.to_owned(),
            length,
            header,
            state,
        }))
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The length of the file in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Bytes that have been read.
    pub(crate) fn offset(&self) -> u64 {
        self.state.offset
    }

    /// The pairs of the next block, or `None` behind the last one, if all were read.
    ///
    /// # Errors
    /// `Corruption`; `InvalidArgument` if the file ends without an end mark; `Io`.
    pub(crate) fn next_block(&mut self) -> Result<Option<Vec<Pair>>> {
        match self.step()? {
            Step::Block(pairs) => Ok(Some(pairs)),
            Step::End => Ok(None),
            Step::Missing => Err(interrupted(self.state.offset).in_file(&self.path)),
        }
    }

    /// Count and checksum of the blocks so far.
    pub(crate) fn summary(&self) -> Summary {
        self.state.totals.summary()
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Reads the next part. An error leaves the state as it was.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    pub(super) fn step(&mut self) -> Result<Step> {
        let Some([tag]) = self.array()? else {
            return Ok(Step::Missing);
        };
        match tag {
            block::TAG => self.block(),
            end::TAG => self.end(),
            _ => Err(self.damaged("neither a block nor the end begins here")),
        }
    }

    fn block(&mut self) -> Result<Step> {
        let Some(rest) = self.array::<{ block::HEAD - 1 }>()? else {
            return Ok(Step::Missing);
        };
        let mut head = [block::TAG; block::HEAD];
        head[1..].copy_from_slice(&rest);
        let head = BlockHead::decode(&head).ok_or_else(|| self.damaged("a block is damaged"))?;
        // Memory for no more than the file can have.
        let behind = self.state.offset + (block::HEAD + head.stored) as u64;
        if behind > self.length {
            return Ok(Step::Missing);
        }
        let mut stored = vec![0; head.stored];
        if !self.fill(&mut stored)? {
            return Ok(Step::Missing);
        }
        let pairs = head.open(stored);
        let pairs = pairs.ok_or_else(|| self.damaged("a block is damaged"))?;
        let last = self.state.last_key.as_ref();
        if let (Some(last), Some(first)) = (last, pairs.first())
            && *last >= first.key
        {
            return Err(self.damaged("the keys of a block are not behind those before"));
        }
        pairs.iter().for_each(|pair| self.state.totals.add(pair));
        self.state.last_key = pairs.last().map(|pair| pair.key.clone());
        self.state.blocks += 1;
        self.state.offset = behind;
        Ok(Step::Block(pairs))
    }

    fn end(&mut self) -> Result<Step> {
        let Some(rest) = self.array::<{ end::LENGTH - 1 }>()? else {
            return Ok(Step::Missing);
        };
        let mut bytes = [end::TAG; end::LENGTH];
        bytes[1..].copy_from_slice(&rest);
        let end = End::decode(&bytes).ok_or_else(|| self.damaged("the end mark is damaged"))?;
        let read = End {
            blocks: self.state.blocks,
            summary: self.summary(),
        };
        if end != read {
            return Err(self.damaged("the end mark is that of other blocks"));
        }
        if self.array::<1>()?.is_some() {
            return Err(self.damaged("the file goes on behind its end mark"));
        }
        self.state.offset += end::LENGTH as u64;
        Ok(Step::End)
    }

    /// The next bytes, or `None` if the file ends before them.
    fn array<const N: usize>(&mut self) -> Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        Ok(self.fill(&mut bytes)?.then_some(bytes))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool> {
        match self.file.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(e) => Err(Error::io(e, "read the export", &self.path)),
        }
    }

    fn damaged(&self, how: &str) -> Error {
        Error::corruption(how).at(&self.path, self.state.offset)
    }
}

/// The error for a file that ends in a part.
fn interrupted(offset: u64) -> Error {
    let what = "the export ends in the part that begins here: it was interrupted, and titan mvcc \
                export goes on with it, or the part is damaged";
    Error::invalid_argument(what).at_offset(offset)
}
