//! Writing an export, and going on with an interrupted one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use titan::{Error, ErrorKind, Result};

use super::block::BlockBuilder;
use super::end::End;
use super::header::Header;
use super::reader::{Reader, State, Step};
use crate::transfer::pairs::{Pair, Summary, Totals};

/// A file that is to become an export, with the content that it has already. Locked against other
/// writers as soon as it exists.
pub(crate) struct Found {
    /// `None` if there is none yet.
    file: Option<File>,
    path: PathBuf,
    /// The header and the intact blocks of an interrupted export.
    part: Option<(Header, State)>,
}

impl Found {
    /// Opens a file, if there is one. Makes none: the source may yet refuse.
    ///
    /// # Errors
    /// `AlreadyExists` for a complete export; `InvalidArgument` for a file of another kind;
    /// `Unsupported` for another version of the format; `Corruption` for a damaged header; `Locked`
    /// if another program writes it; `Io`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let opening = |e| Error::opening(e, "open the export", path);
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(Found {
                    file: None,
                    path: path.to_owned(),
                    part: None,
                });
            }
            opened => opened.map_err(opening)?,
        };
        if !file.metadata().map_err(opening)?.is_file() {
            return Err(Error::invalid_argument("an export is a regular file").in_file(path));
        }
        lock(&file, path)?;
        let reading = file.try_clone().map_err(opening)?;
        let part = match Reader::of(reading, path)? {
            None => None,
            Some(reader) => Some(intact_part(reader, path)?),
        };
        Ok(Found {
            file: Some(file),
            path: path.to_owned(),
            part,
        })
    }

    /// The header of an interrupted export.
    pub(crate) fn header(&self) -> Option<&Header> {
        self.part.as_ref().map(|(header, _)| header)
    }

    /// Begins anew, and makes the file if there is none.
    ///
    /// # Errors
    /// `Locked` if another program writes it; `AlreadyExists` if another one has made it meanwhile;
    /// `Io`, `NoSpace`.
    pub(crate) fn begin(self, header: &Header) -> Result<Writer> {
        let Found { file, path, .. } = self;
        let file = match file {
            Some(file) => file,
            None => {
                let made = OpenOptions::new().write(true).create_new(true).open(&path);
                let made = made.map_err(|e| Error::opening(e, "make the export", &path))?;
                lock(&made, &path)?;
                made
            }
        };
        let state = State {
            offset: 0,
            blocks: 0,
            totals: Totals::default(),
            last_key: None,
        };
        let mut writer = Writer::at(file, path, state)?;
        writer.write(&header.encode())?;
        // ORDER: an export that goes on has its name and its timestamp, regardless of the bytes
        // after them.
        writer.file.sync_all().map_err(|e| writer.failed(e))?;
        let parent = directory_of(&writer.path);
        let synced = File::open(parent).and_then(|directory| directory.sync_all());
        synced.map_err(|e| Error::io(e, "sync the directory", parent))?;
        Ok(writer)
    }

    /// Goes on with an interrupted export, behind its intact blocks.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn go_on(self) -> Result<Writer> {
        match (self.file, self.part) {
            (Some(file), Some((_, state))) => Writer::at(file, self.path, state),
            _ => Err(Error::internal("no export was begun")),
        }
    }
}

/// Locks a file against other writers.
fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let what = "another program writes the export";
            Err(Error::new(ErrorKind::Locked, what).in_file(path))
        }
        Err(TryLockError::Error(e)) => Err(Error::io(e, "lock the export", path)),
    }
}

/// The directory in which a file is.
pub(crate) fn directory_of(file: &Path) -> &Path {
    let parent = file.parent().filter(|p| !p.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// The header of an interrupted export, and the blocks up to the first that is torn or damaged.
fn intact_part(mut reader: Reader, path: &Path) -> Result<(Header, State)> {
    loop {
        match reader.step() {
            Ok(Step::Block(_)) => {}
            Ok(Step::End) => {
                let what = "the export is complete: name another file, or delete this one";
                return Err(Error::new(ErrorKind::AlreadyExists, what).in_file(path));
            }
            Ok(Step::Missing) => break,
            Err(e) if e.is_corruption() => break,
            Err(e) => return Err(e),
        }
    }
    Ok((reader.header().clone(), reader.state().clone()))
}

/// Writes the blocks of an export.
pub(crate) struct Writer {
    file: File,
    path: PathBuf,
    block: BlockBuilder,
    state: State,
}

impl Writer {
    /// Writes after a part, and cuts off the bytes after it.
    fn at(mut file: File, path: PathBuf, state: State) -> Result<Self> {
        let cut = file
            .set_len(state.offset)
            .and_then(|()| file.seek(SeekFrom::Start(state.offset)));
        cut.map_err(|e| Error::io(e, "cut the export", &path))?;
        Ok(Writer {
            file,
            path,
            block: BlockBuilder::default(),
            state,
        })
    }

    /// The last key so far.
    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        self.state.last_key.as_deref()
    }

    /// The count of pairs so far.
    pub(crate) fn pairs(&self) -> u64 {
        self.state.totals.pairs
    }

    /// Adds a pair, whose key must be behind the last one.
    ///
    /// # Errors
    /// `Unsupported` for a pair of more than 512 MiB; `Internal` for a key that is not behind the
    /// last one; `Io`, `NoSpace`.
    pub(crate) fn add(&mut self, pair: &Pair) -> Result<()> {
        if self.last_key().is_some_and(|last| last >= &*pair.key) {
            return Err(Error::internal("the keys of the source do not ascend"));
        }
        if self.block.is_full() {
            self.write_block()?;
        }
        self.block.add(pair)?;
        self.state.totals.add(pair);
        self.state.last_key = Some(pair.key.clone());
        Ok(())
    }

    /// Writes the end mark. Returns count and checksum of all pairs, and the length of the file.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn finish(mut self) -> Result<(Summary, u64)> {
        if !self.block.is_empty() {
            self.write_block()?;
        }
        // ORDER: the end mark says that all before it is there.
        self.file.sync_data().map_err(|e| self.failed(e))?;
        let end = End {
            blocks: self.state.blocks,
            summary: self.state.totals.summary(),
        };
        self.write(&end.encode())?;
        self.file.sync_all().map_err(|e| self.failed(e))?;
        Ok((end.summary, self.state.offset))
    }

    fn write_block(&mut self) -> Result<()> {
        let bytes = self.block.take();
        self.write(&bytes)?;
        self.state.blocks += 1;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| self.failed(e))?;
        self.state.offset += bytes.len() as u64;
        Ok(())
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io(error, "write the export", &self.path)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use titan_mvcc::Timestamp;

    use super::*;

    fn header() -> Header {
        Header {
            timestamp: Timestamp(7),
            asked: Timestamp(7),
            age: 5,
            is_resumable: true,
            source: "store of a test".to_owned(),
            range: Default::default(),
        }
    }

    /// Pairs of several blocks.
    fn pairs() -> Vec<Pair> {
        let sizes = [0, 1, 700_000, 600_000, 3 << 20, 5];
        let pairs = sizes.iter().enumerate().map(|(n, size)| Pair {
            key: format!("key {n}").into(),
            value: (0..*size).map(|at| (at % 251 * n) as u8).collect(),
        });
        pairs.collect()
    }

    fn read(path: &Path) -> Result<Vec<Pair>> {
        let mut reader = Reader::open(path)?;
        assert_eq!(*reader.header(), header());
        let mut all = Vec::new();
        while let Some(block) = reader.next_block()? {
            all.extend(block);
        }
        assert_eq!(reader.offset(), reader.length());
        Ok(all)
    }

    /// Writes the pairs that a file lacks.
    fn complete(path: &Path) -> (Summary, u64) {
        let found = Found::open(path).unwrap();
        let mut writer = match found.header() {
            Some(_) => found.go_on().unwrap(),
            None => found.begin(&header()).unwrap(),
        };
        let last = writer.last_key().map(Bytes::copy_from_slice);
        let rest = pairs().into_iter();
        let rest = rest.filter(|pair| last.as_ref().is_none_or(|last| pair.key > *last));
        rest.for_each(|pair| writer.add(&pair).unwrap());
        writer.finish().unwrap()
    }

    #[test]
    fn an_export_goes_on_wherever_it_was_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let finished = complete(&path);
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(finished.1, whole.len() as u64);
        assert_eq!(read(&path).unwrap(), pairs());
        let said = Found::open(&path).err().unwrap();
        assert_eq!(said.kind(), ErrorKind::AlreadyExists);
        let cuts = (0..80).chain((80..whole.len()).step_by(400_009));
        for cut in cuts.chain(whole.len() - 62..whole.len()) {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let said = read(&path).unwrap_err();
            assert_eq!(said.kind(), ErrorKind::InvalidArgument, "{cut}: {said}");
            assert_eq!(complete(&path), finished, "{cut}");
            assert_eq!(std::fs::read(&path).unwrap(), whole, "{cut}");
        }
    }

    #[test]
    fn a_damaged_export_is_refused_and_can_be_mended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let mut writer = Found::open(&path).unwrap().begin(&header()).unwrap();
        for pair in &pairs()[..2] {
            writer.add(pair).unwrap();
        }
        let finished = writer.finish().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let body = header().encode().len();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            std::fs::write(&path, &damaged).unwrap();
            let said = read(&path).unwrap_err();
            assert_eq!(said.path(), Some(&*path), "{at}: {said}");
            if at < body {
                assert!(Found::open(&path).is_err(), "{at}");
                continue;
            }
            let mut writer = Found::open(&path).unwrap().go_on().unwrap();
            for pair in pairs()[..2].iter().skip(writer.pairs() as usize) {
                writer.add(pair).unwrap();
            }
            assert_eq!(writer.finish().unwrap(), finished, "{at}");
            assert_eq!(std::fs::read(&path).unwrap(), whole, "{at}");
        }
        std::fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
        assert!(read(&path).unwrap_err().is_corruption());
    }

    #[test]
    fn other_files_stay_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let mut newer = header().encode();
        newer[8] += 1;
        for (bytes, kind) in [
            (&b"a text"[..], ErrorKind::InvalidArgument),
            (&[b'x'; 100], ErrorKind::InvalidArgument),
            (&newer, ErrorKind::Unsupported),
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(Found::open(&path).err().unwrap().kind(), kind);
            assert_eq!(Reader::open(&path).err().unwrap().kind(), kind);
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(Found::open(dir.path()).is_err());
    }

    #[test]
    fn a_file_is_made_when_an_export_begins_and_has_one_writer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let [first, late] = [(); 2].map(|()| Found::open(&path).unwrap());
        assert!(!path.exists());
        let _writer = first.begin(&header()).unwrap();
        let second = Found::open(&path).err().unwrap();
        assert_eq!(second.kind(), ErrorKind::Locked);
        assert!(late.begin(&header()).is_err());
    }

    #[test]
    fn keys_must_ascend() {
        let dir = tempfile::tempdir().unwrap();
        let found = Found::open(&dir.path().join("x")).unwrap();
        let mut writer = found.begin(&header()).unwrap();
        writer.add(&pairs()[1]).unwrap();
        for wrong in &pairs()[..2] {
            assert_eq!(writer.add(wrong).unwrap_err().kind(), ErrorKind::Internal);
        }
    }
}
