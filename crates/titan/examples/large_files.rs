//! Files of any size, stored and read in little memory.
//!
//! A value is written from memory, so a file is stored in parts. A value is read as a stream, or
//! from any offset on, without the rest of it.
//!
//! `cargo run -p titandb --example large_files`

use std::io::{self, Read, Seek, SeekFrom, Write};

use titan::{Db, Options, WriteBatch, WriteOptions, prefix};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PART: usize = 4 << 20;

/// The key of a part. Parts of a file are neighbours, after the file's own key.
fn part_key(name: &str, part: u64) -> Vec<u8> {
    [name.as_bytes(), b"\0", &part.to_be_bytes()].concat()
}

/// Stores what `source` has, and returns its length. The file exists once its length is written.
fn store(db: &Db, name: &str, mut source: impl Read) -> Result<u64> {
    remove(db, name)?;
    let mut len = 0;
    let mut part = Vec::with_capacity(PART);
    for number in 0.. {
        part.clear();
        source.by_ref().take(PART as u64).read_to_end(&mut part)?;
        if part.is_empty() {
            break;
        }
        db.put(part_key(name, number), &part)?;
        len += part.len() as u64;
    }
    db.put_with(name, len.to_be_bytes(), &WriteOptions::synced())?; // and all writes before it
    Ok(len)
}

/// Removes a file and its parts, all or nothing.
fn remove(db: &Db, name: &str) -> Result<()> {
    let parts = format!("{name}\0");
    let end = prefix::end(&parts).ok_or("no end")?;
    let mut batch = WriteBatch::new();
    batch.delete(db, name)?;
    batch.delete_range(db, parts, end)?;
    Ok(db.write(batch, &WriteOptions::default())?)
}

/// Copies a file to `to`, as of one moment. Cost: memory for one part.
fn copy(db: &Db, name: &str, to: &mut impl Write) -> Result<u64> {
    let now = db.snapshot();
    if !now.contains_key(db, name)? {
        return Err(format!("there is no file {name}").into());
    }
    let mut len = 0;
    for key in now.prefix(db, format!("{name}\0")).into_keys() {
        let part = now.get_lazy(db, key?)?.ok_or("a part is gone")?;
        len += io::copy(&mut part.reader(), to)?;
    }
    Ok(len)
}

/// Reads from `offset` on, at most to the end of a part, as `read` does. Cost: the bytes that are
/// read, but for the first read of a part, which verifies it.
fn read_at(db: &Db, name: &str, offset: u64, buf: &mut [u8]) -> Result<usize> {
    let (part, offset) = (offset / PART as u64, offset % PART as u64);
    match db.get_lazy(part_key(name, part))? {
        Some(part) => Ok(part.read_at(offset, buf)?),
        None => Ok(0),
    }
}

pub(crate) fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), &Options::default())?;

    let film = io::repeat(1)
        .take(9 << 20)
        .chain(io::repeat(2).take(1 << 20));
    assert_eq!(store(&db, "film", film)?, 10 << 20);
    db.flush()?;
    assert_eq!(copy(&db, "film", &mut io::sink())?, 10 << 20);
    let mut buf = [0; 8];
    assert_eq!(read_at(&db, "film", (9 << 20) - 4, &mut buf)?, 8);
    assert_eq!(buf, [1, 1, 1, 1, 2, 2, 2, 2]);

    // A value that fits in memory once, when it is written, needs no parts.
    db.put("song", vec![3; 5_000_000])?;
    db.flush()?;
    let song = db.get_lazy("song")?.ok_or("no song")?;
    assert_eq!(song.len(), Some(5_000_000)); // nothing is read yet
    let mut reader = song.reader();
    reader.seek(SeekFrom::End(-1000))?;
    let mut end = Vec::new();
    reader.read_to_end(&mut end)?;
    assert_eq!(end, [3; 1000]);

    remove(&db, "film")?;
    assert!(copy(&db, "film", &mut io::sink()).is_err());
    assert_eq!(db.keys(..).collect::<titan::Result<Vec<_>>>()?, ["song"]);
    db.close()?;
    Ok(())
}
