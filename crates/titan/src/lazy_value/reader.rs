//! A value as a stream of bytes.

use std::io::{self, Read, Seek, SeekFrom};

use bytes::Bytes;

use super::value::{Kind, LazyValue, copy_part};
use crate::error::Result;

/// A value as a stream of bytes, from [`LazyValue::reader`].
///
/// ```
/// # fn main() -> titan::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
/// db.put("film", vec![7; 5_000_000])?;
/// db.flush()?;
/// let film = db.get_lazy("film")?.unwrap();
/// let copied = std::io::copy(&mut film.reader(), &mut std::io::sink())?;
/// assert_eq!(copied, 5_000_000);
/// # Ok(())
/// # }
/// ```
///
/// Cost: a large value in a blob file that is not compressed is verified and then read in parts, as
/// [`LazyValue::read_at`] says, so each read should ask for many bytes. Every other value is
/// fetched by the first read, and in memory as long as the reader.
#[derive(Clone, Debug)]
pub struct ValueReader {
    value: LazyValue,
    /// The whole value, unless it is read in parts or was not needed yet.
    whole: Option<Bytes>,
    position: u64,
}

impl LazyValue {
    /// A reader of the value, from its first byte on: see [`ValueReader`].
    pub fn reader(&self) -> ValueReader {
        ValueReader {
            value: self.clone(),
            whole: None,
            position: 0,
        }
    }
}

impl ValueReader {
    /// The whole value; `None` if it is read in parts.
    fn whole(&mut self) -> Result<Option<&Bytes>> {
        if self.whole.is_none() {
            if let Kind::Deferred(deferred) = &self.value.0 {
                self.value = deferred.find()?;
            }
            if !self.value.is_read_in_parts() {
                self.whole = Some(self.value.fetch()?);
            }
        }
        Ok(self.whole.as_ref())
    }

    /// Bytes of the value. Reads it, unless it is read in parts.
    fn size(&mut self) -> Result<u64> {
        let whole = self.whole()?.map(|value| value.len() as u64);
        // A value that is read in parts is stored as it is.
        Ok(whole.unwrap_or_else(|| self.value.stored_len()))
    }
}

impl Read for ValueReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let position = self.position;
        let read = match self.whole()? {
            Some(value) => copy_part(value, position, buf),
            None => self.value.read_at(position, buf)?,
        };
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for ValueReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let moved = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.size()?.checked_add_signed(by),
        };
        let before =
            || io::Error::new(io::ErrorKind::InvalidInput, "before the value's first byte");
        self.position = moved.ok_or_else(before)?;
        Ok(self.position)
    }
}
