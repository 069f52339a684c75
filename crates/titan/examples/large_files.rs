//! Files of any size, stored and read in little memory.
//!
//! A value comes from a reader, and is read as a stream, or from any offset on, without the rest of
//! it: so a file that is written once is a value. These files are stored in parts, since then they
//! could grow, or be written at several places; a file exists once its length is written.
//!
//! `cargo run -p titandb --example large_files`

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use titan::{
    ColumnFamily, Db, Error, ErrorKind, Options, Result, Snapshot, WriteBatch, WriteOptions, prefix,
};

const PART: usize = 4 << 20;

struct Files {
    db: Db,
    lengths: ColumnFamily,
    parts: ColumnFamily,
}

/// The beginning of the keys of a file's parts. It is that of no other file, since none has a zero
/// byte in its name.
fn start(name: &str) -> Result<Vec<u8>> {
    match name.contains('\0') {
        true => Err(Error::invalid_argument(
            "a file has a zero byte in its name",
        )),
        false => Ok([name.as_bytes(), b"\0"].concat()),
    }
}

fn part_key(name: &str, part: u64) -> Result<Vec<u8>> {
    Ok([&start(name)?, &part.to_be_bytes()[..]].concat())
}

impl Files {
    fn open(path: &Path) -> Result<Self> {
        let db = Db::open(path, &Options::default())?;
        Ok(Files {
            lengths: db.open_or_create_column_family("lengths", Default::default())?,
            parts: db.open_or_create_column_family("parts", Default::default())?,
            db,
        })
    }

    /// Stores what `source` has, and returns its length. If it fails, there is no such file; parts
    /// that it left go when the name is stored or removed again.
    fn store(&self, name: &str, mut source: impl Read) -> Result<u64> {
        self.remove(name)?;
        let mut len = 0;
        let mut part = Vec::with_capacity(PART);
        for number in 0.. {
            part.clear();
            source.by_ref().take(PART as u64).read_to_end(&mut part)?;
            if part.is_empty() {
                break;
            }
            self.parts.put(part_key(name, number)?, &part)?;
            len += part.len() as u64;
        }
        // Synced, with all writes before it.
        let synced = WriteOptions::synced();
        self.lengths.put_with(name, len.to_be_bytes(), &synced)?;
        Ok(len)
    }

    /// Removes a file and its parts, all or nothing.
    fn remove(&self, name: &str) -> Result<()> {
        let start = start(name)?;
        let end = prefix::end(&start).ok_or_else(|| Error::internal("no end"))?;
        let mut batch = WriteBatch::new();
        batch.delete(&self.lengths, name)?;
        batch.delete_range(&self.parts, start, end)?;
        self.db.write(batch, &WriteOptions::default())
    }

    /// The length of a file as of a moment.
    fn len(&self, name: &str, at: &Snapshot) -> Result<u64> {
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no file {name}"));
        let len = at.get(&self.lengths, name)?.ok_or_else(missing)?;
        let len = len.as_ref().try_into().map(u64::from_be_bytes);
        len.map_err(|_| Error::corruption("a length is no number"))
    }

    /// Copies a file to `to`, as of one moment. Cost: memory for one part.
    fn copy(&self, name: &str, to: &mut impl Write) -> Result<u64> {
        let now = self.db.snapshot();
        let len = self.len(name, &now)?;
        let mut copied = 0;
        for number in 0..len.div_ceil(PART as u64) {
            let part = now.get_lazy(&self.parts, part_key(name, number)?)?;
            let part = part.ok_or_else(|| Error::corruption("a part is missing"))?;
            copied += io::copy(&mut part.reader(), to)?;
        }
        match copied == len {
            true => Ok(len),
            false => Err(Error::corruption(
                "the parts have another length than the file",
            )),
        }
    }

    /// Reads from `offset` on, at most to the end of a part, as `read` does. Cost: the bytes that
    /// are read, but for the first read of a part, which verifies it.
    fn read_at(&self, name: &str, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let now = self.db.snapshot();
        if offset >= self.len(name, &now)? {
            return Ok(0);
        }
        let (number, offset) = (offset / PART as u64, offset % PART as u64);
        let part = now.get_lazy(&self.parts, part_key(name, number)?)?;
        let part = part.ok_or_else(|| Error::corruption("a part is missing"))?;
        part.read_at(offset, buf)
    }
}

/// A source that fails, as a connection that breaks.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

pub(crate) fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let files = Files::open(dir.path())?;
    let all_of = |byte, mib: u64| io::repeat(byte).take(mib << 20);

    let film = all_of(1, 9).chain(all_of(2, 1));
    assert_eq!(files.store("film", film)?, 10 << 20);
    files.db.flush_all()?;
    assert_eq!(files.copy("film", &mut io::sink())?, 10 << 20);
    let mut buf = [0; 8];
    assert_eq!(files.read_at("film", (9 << 20) - 4, &mut buf)?, 8);
    assert_eq!(buf, [1, 1, 1, 1, 2, 2, 2, 2]);

    // Half a film is none.
    let broken = files.store("film", all_of(1, 9).chain(Broken));
    let why = broken.map_err(|e| (e.kind(), e.io_kind()));
    assert_eq!(
        why,
        Err((ErrorKind::Io, Some(io::ErrorKind::ConnectionReset)))
    );
    let missing = files.copy("film", &mut io::sink()).map_err(|e| e.kind());
    assert_eq!(missing, Err(ErrorKind::NotFound));
    files.remove("film")?;
    assert_eq!(files.parts.keys(..).count(), 0);

    // What is written once needs no parts.
    assert_eq!(files.db.put_reader("song", all_of(3, 5))?, 5 << 20);
    let half = files.db.put_reader("song", all_of(4, 2).chain(Broken));
    let why = half.map_err(|e| (e.kind(), e.io_kind()));
    assert_eq!(
        why,
        Err((ErrorKind::Io, Some(io::ErrorKind::ConnectionReset)))
    );
    let mut end = Vec::new();
    if let Some(song) = files.db.get_lazy("song")? {
        assert_eq!(song.len(), Some(5 << 20)); // nothing is read yet
        let mut reader = song.reader();
        reader.seek(SeekFrom::End(-1000))?;
        reader.read_to_end(&mut end)?;
    }
    assert_eq!(end, [3; 1000]);
    files.db.close()
}
