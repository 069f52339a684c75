//! A volume as a stream of bytes: for backups, and for moving to another store.
//!
//! A dump has all keys and values of a volume as of one moment, so nothing is lost: attributes,
//! times, holes, links, and also data that is yet to be deleted.
//!
//! ```text
//! magic     "TiFSdump"                                8 bytes
//! version   1                                         1 byte
//! record    space (1: meta, 2: data)                  1 byte
//!           length of the key, length of the value    2 x 4 bytes, little-endian
//!           key, value
//! ...
//! end       0                                         1 byte
//!           number of records                         8 bytes, little-endian
//!           XXH3 of everything before this field      8 bytes, little-endian
//! ```
//!
//! The superblock comes last, and a load stores it last: a dump loaded in part is no volume.

use std::io::{Read, Write};

use rustix::io::Errno;
use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, Result, reason};
use crate::kv::{Commit, Kv, Scan, Space};
use crate::schema::Key;

const MAGIC: &[u8; 8] = b"TiFSdump";
const VERSION: u8 = 1;
const END: u8 = 0;

/// Keys read at once.
const PAGE: usize = 256;

/// Bytes of keys and values that one transaction of a load writes, about. etcd takes 1.5 MiB.
const PIECE: usize = 1 << 20;

/// Keys that one transaction of a load writes, at most. On etcd, each is an operation.
const RECORDS: usize = 1024;

/// Attempts to store a piece. Nobody else writes the store, but a commit may have had no answer.
const ATTEMPTS: usize = 10;

/// The longest key or value that a load accepts.
const LENGTH_MAX: usize = 64 << 20;

/// A key with its space and value.
type Record = (Space, Vec<u8>, Vec<u8>);

/// The extent of a dump or load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Amount {
    /// Keys.
    pub records: u64,
    /// Bytes of the stream.
    pub bytes: u64,
}

/// Writes the volume of a store as of now. `progress` is called now and then, and ends the dump by
/// returning false.
///
/// # Errors
/// Those of the store and of the writer; `EINVAL` if there is no volume; `EINTR`.
pub fn dump(
    kv: &dyn Kv,
    to: &mut dyn Write,
    progress: &mut dyn FnMut(Amount) -> bool,
) -> Result<Amount> {
    let snapshot = kv.snapshot()?;
    let superblock_key = Key::Superblock.encode();
    let superblock = snapshot.get(Space::Meta, &superblock_key)?;
    let superblock = superblock.ok_or_else(|| Error::new(Errno::INVAL, "there is no volume"))?;
    let mut out = Checked::new(to);
    out.write(&[&MAGIC[..], &[VERSION]].concat())?;
    for space in [Space::Meta, Space::Data] {
        let mut scan = Scan::prefix(space, b"").limit(PAGE);
        loop {
            let page = snapshot.scan(&scan)?;
            for (key, value) in page.iter().filter(|(key, _)| key[..] != superblock_key) {
                out.record(space, key, value)?;
            }
            if !progress(out.amount) {
                return Err(Error::interrupted());
            }
            match page.last() {
                Some((last, _)) if page.len() == PAGE => scan.begin = [last, &[0][..]].concat(),
                _ => break,
            }
        }
    }
    out.record(Space::Meta, &superblock_key, &superblock)?;
    let records = out.amount.records;
    out.write(&[&[END][..], &records.to_le_bytes()].concat())?;
    let sum = out.hash.digest();
    out.write(&sum.to_le_bytes())?;
    written(out.inner.flush())?;
    Ok(out.amount)
}

/// Stores a dumped volume in an empty store. `progress` as for [`dump`].
///
/// # Errors
/// `EEXIST` if the store has keys; `EIO` if the stream is no dump, damaged, cut short, or goes on
/// after the dump: the store has no volume then.
pub fn load(
    kv: &dyn Kv,
    from: &mut dyn Read,
    progress: &mut dyn FnMut(Amount) -> bool,
) -> Result<Amount> {
    for space in [Space::Meta, Space::Data] {
        if !kv
            .scan(&Scan::prefix(space, b"").keys_only().limit(1))?
            .is_empty()
        {
            return Err(Error::new(Errno::EXIST, "the store is not empty"));
        }
    }
    let mut input = Checked::new(from);
    let mut head = [0; 9];
    input.read(&mut head)?;
    if head[..8] != MAGIC[..] {
        return Err(Error::corrupt("this is no dump of a volume"));
    }
    if head[8] != VERSION {
        let version = head[8];
        let what = format!("the dump has version {version}; this program knows version {VERSION}");
        return Err(Error::corrupt(what));
    }
    let superblock_key = Key::Superblock.encode();
    let mut superblock = None;
    let mut piece = Vec::new();
    let mut pending = 0;
    while let Some((space, key, value)) = input.next_record()? {
        if space == Space::Meta && key == superblock_key {
            superblock = Some(value);
            continue;
        }
        pending += key.len() + value.len();
        piece.push((space, key, value));
        if pending >= PIECE || piece.len() == RECORDS {
            store(kv, &piece)?;
            piece.clear();
            pending = 0;
            if !progress(input.amount) {
                return Err(Error::interrupted());
            }
        }
    }
    store(kv, &piece)?;
    input.check_end()?;
    let superblock = superblock.ok_or_else(|| Error::corrupt("the dump has no superblock"))?;
    // ORDER: everything else is durable before the store becomes a volume.
    kv.sync()?;
    store(kv, &[(Space::Meta, superblock_key, superblock)])?;
    kv.sync()?;
    Ok(input.amount)
}

/// Stores records. Records that an attempt without an answer may have stored are stored again.
fn store(kv: &dyn Kv, records: &[Record]) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let mut transaction = kv.begin()?;
        for (space, key, value) in records {
            transaction.put(*space, key, value)?;
        }
        if transaction.commit()? == Commit::Committed {
            return Ok(());
        }
    }
    Err(Error::new(Errno::BUSY, "somebody else writes the store"))
}

/// A stream whose bytes are counted and summed.
struct Checked<T> {
    inner: T,
    hash: Xxh3,
    amount: Amount,
}

impl<T> Checked<T> {
    fn new(inner: T) -> Self {
        Checked {
            inner,
            hash: Xxh3::new(),
            amount: Amount::default(),
        }
    }

    fn note(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.amount.bytes += bytes.len() as u64;
    }
}

impl Checked<&mut dyn Write> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.note(bytes);
        written(self.inner.write_all(bytes))
    }

    fn record(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        let mut head = vec![match space {
            Space::Meta => 1,
            Space::Data => 2,
        }];
        for length in [key.len(), value.len()] {
            let length = u32::try_from(length).map_err(|_| Errno::TOOBIG)?;
            head.extend_from_slice(&length.to_le_bytes());
        }
        head.extend_from_slice(key);
        self.write(&head)?;
        self.write(value)?;
        self.amount.records += 1;
        Ok(())
    }
}

impl Checked<&mut dyn Read> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.inner.read_exact(bytes).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::corrupt("the dump is cut short"),
            _ => io_error("cannot read the dump", &e),
        })?;
        self.note(bytes);
        Ok(())
    }

    fn next_record(&mut self) -> Result<Option<Record>> {
        let mut space = [0];
        self.read(&mut space)?;
        let space = match space[0] {
            END => return Ok(None),
            1 => Space::Meta,
            2 => Space::Data,
            other => return Err(self.damaged(&format!("a record has kind {other}"))),
        };
        let (key, value) = (self.length()?, self.length()?);
        if key == 0 || value == 0 {
            return Err(self.damaged("a key or value is empty"));
        }
        self.amount.records += 1;
        Ok(Some((space, self.bytes(key)?, self.bytes(value)?)))
    }

    fn length(&mut self) -> Result<usize> {
        let mut length = [0; 4];
        self.read(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > LENGTH_MAX {
            return Err(self.damaged("a key or value is longer than any can be"));
        }
        Ok(length)
    }

    fn bytes(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    /// Compares the records read with the end of the dump, which is the end of the stream.
    fn check_end(&mut self) -> Result<()> {
        let records = self.number()?;
        let sum = self.hash.digest();
        if self.number()? != sum || records != self.amount.records {
            return Err(self.damaged("its checksum is another"));
        }
        match self.inner.read_exact(&mut [0]) {
            Ok(()) => Err(Error::corrupt("the dump has ended, but more bytes follow")),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(()),
            Err(e) => Err(io_error("cannot read the dump", &e)),
        }
    }

    fn number(&mut self) -> Result<u64> {
        let mut number = [0; 8];
        self.read(&mut number)?;
        Ok(u64::from_le_bytes(number))
    }

    fn damaged(&self, what: &str) -> Error {
        Error::corrupt(format!(
            "the dump is damaged before byte {}: {what}",
            self.amount.bytes
        ))
    }
}

fn io_error(what: &str, error: &std::io::Error) -> Error {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    Error::new(errno, format!("{what}: {}", reason(error)))
}

fn written(result: std::io::Result<()>) -> Result<()> {
    result.map_err(|e| io_error("cannot write the dump", &e))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;
    use crate::check::check;
    use crate::file_system::{Caller, FileSystem, WriteContext};
    use crate::kv::MemoryKv;
    use crate::schema::InodeNumber;
    use crate::volume::{Volume, VolumeOptions};

    fn volume() -> MemoryKv {
        let kv = std::sync::Arc::new(MemoryKv::new());
        Volume::make(&*kv, &VolumeOptions::default()).unwrap();
        let volume = Volume::open(kv.clone() as _, VolumeOptions::default()).unwrap();
        let caller = Caller { uid: 0, gid: 0 };
        for number in 0..600 {
            let name = format!("f{number}");
            let made =
                volume.make_node(&caller, InodeNumber::ROOT, name.as_bytes(), 0o100644, 0, 0);
            let data = vec![number as u8; number * 20];
            let context = WriteContext::default();
            volume
                .write(made.unwrap().number, 0, &data, context)
                .unwrap();
        }
        drop(volume);
        std::sync::Arc::into_inner(kv).unwrap()
    }

    fn dumped(kv: &MemoryKv) -> Vec<u8> {
        let mut stream = Vec::new();
        let amount = dump(kv, &mut stream, &mut |_| true).unwrap();
        assert_eq!(amount.bytes, stream.len() as u64);
        stream
    }

    fn loaded(mut stream: &[u8]) -> (MemoryKv, Result<Amount>) {
        let kv = MemoryKv::new();
        let result = load(&kv, &mut stream, &mut |_| true);
        (kv, result)
    }

    #[test]
    fn a_dump_is_loaded_as_it_was() {
        let kv = volume();
        let stream = dumped(&kv);
        let (copy, amount) = loaded(&stream);
        assert_eq!(amount.unwrap().bytes, stream.len() as u64);
        assert!(check(&copy, true, &mut |_| true).unwrap().is_clean());
        for space in [Space::Meta, Space::Data] {
            let all = Scan::prefix(space, b"");
            assert_eq!(copy.scan(&all).unwrap(), kv.scan(&all).unwrap());
        }
        let refused = load(&copy, &mut &stream[..], &mut |_| true);
        assert_eq!(refused.unwrap_err().errno(), Errno::EXIST);
    }

    #[test]
    fn what_was_loaded_in_part_is_no_volume() {
        let stream = dumped(&volume());
        let superblock = Key::Superblock.encode();
        for end in (0..stream.len()).step_by(stream.len() / 50) {
            let (copy, result) = loaded(&stream[..end]);
            assert_eq!(result.unwrap_err().errno(), Errno::IO);
            assert_eq!(copy.get(Space::Meta, &superblock).unwrap(), None);
        }
        let (copy, result) = loaded(&[&stream[..], b"\0"].concat());
        assert!(result.unwrap_err().context().contains("more bytes follow"));
        assert_eq!(copy.get(Space::Meta, &superblock).unwrap(), None);
        for place in (0..stream.len()).step_by(stream.len() / 50) {
            let mut damaged = stream.clone();
            damaged[place] ^= 1;
            let (copy, result) = loaded(&damaged);
            assert!(result.is_err(), "{place}");
            assert_eq!(copy.get(Space::Meta, &superblock).unwrap(), None);
        }
    }
}
