//! Reads values, lists and lines from files and pipes, some of which never end.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use titan::vfs::{StdVfs, Vfs};
use titan::{Error, ErrorKind, Result};

/// The largest value, with room for its key: the engine's batches have up to 4 GiB less 64 MiB.
pub(crate) const MAX_VALUE: u64 = (4 << 30) - (64 << 20) - (1 << 20);

/// The largest value that is written while it is read.
const MAX_STREAMED: u64 = u32::MAX as u64;

/// Bytes of an input that are read before a database is opened for it.
const BEGIN: u64 = 1 << 20;

/// Bytes that a device may have. Most that end have none, and the others have no end.
const OF_DEVICE: u64 = 64 << 10;

/// The longest line of a list of keys: the longest key that RocksDB advises, of 8 MiB, in
/// hexadecimal, and the end of the line.
const MAX_KEY_LINE: u64 = 2 + 2 * (8 << 20) + 1;

/// The most that is read at once: as much as the largest value, and half of the memory that is
/// left.
pub(crate) fn max() -> u64 {
    let memory = StdVfs.resources().memory;
    memory.map_or(MAX_VALUE, |memory| MAX_VALUE.min(memory.left / 2))
}

/// The error of an input with more bytes than can be read at once.
pub(crate) fn too_large(what: &str, max: u64, path: &Path) -> Error {
    let why = match max {
        MAX_VALUE => "the largest value, 4 GiB less 65 MiB",
        MAX_STREAMED => "the largest value, 4 GiB less a byte",
        MAX_KEY_LINE => "a key of 8 MiB in hexadecimal",
        _ => "half of the memory that is available",
    };
    Error::unsupported(format!("{what} of more than {max} bytes, {why}")).in_file(path)
}

/// Reads a line of up to `max` bytes, with its end. False at the end of the input.
///
/// # Errors
/// Those of the input, and `Unsupported` for a longer line, of which a part was read.
pub(crate) fn read_line(
    input: &mut impl BufRead,
    line: &mut Vec<u8>,
    max: u64,
    path: &Path,
) -> Result<bool> {
    line.clear();
    append_line(input, line, max, path)
}

/// The same, after what `lines` has.
fn append_line(
    input: &mut impl BufRead,
    lines: &mut Vec<u8>,
    max: u64,
    path: &Path,
) -> Result<bool> {
    let read = input.take(max + 1).read_until(b'\n', lines);
    match read.map_err(|e| Error::io(e, "read", path))? as u64 {
        read if read > max => Err(too_large("a line", max, path)),
        read => Ok(read > 0),
    }
}

/// Reads an input to its end. `size` is its length, as far as known.
///
/// # Errors
/// `Unsupported` if it is larger than a value can be, or takes more than half of the memory that is
/// left: some inputs never end.
pub(crate) fn read(mut input: impl Read, size: u64, path: &Path) -> Result<Vec<u8>> {
    let max = max();
    let mut value = Vec::new();
    if size <= max {
        value.reserve_exact(size as usize);
        // A file may grow while it is read.
        let read = input.by_ref().take(max + 1).read_to_end(&mut value);
        let read = read.map_err(|e: io::Error| Error::io(e, "read", path))?;
        if read as u64 <= max {
            return Ok(value);
        }
    }
    Err(too_large("an input", max, path))
}

/// A file or standard input, which is yet to be read. Its errors name it, and are those of
/// [`titan`].
pub(crate) struct Input {
    reader: Box<dyn Read>,
    /// The size, as far as it is known.
    size: u64,
    path: PathBuf,
}

impl Input {
    /// A file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |e| Error::io(e, "read", path);
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        Ok(Input {
            size: metadata.len(),
            reader: match is_device(&file).map_err(failed)? {
                true => Box::new(Device::new(file)),
                false => Box::new(file),
            },
            path: path.to_owned(),
        })
    }

    /// Standard input.
    ///
    /// # Errors
    /// Failures to ask about it.
    pub(crate) fn standard() -> Result<Self> {
        let path = PathBuf::from("standard input");
        let stdin = io::stdin().lock();
        let also = stdin.as_fd().try_clone_to_owned();
        let is_device = also.and_then(|also| is_device(&File::from(also)));
        Ok(Input {
            reader: match is_device.map_err(|e| Error::io(e, "read", &path))? {
                true => Box::new(Device::new(stdin)),
                false => Box::new(stdin),
            },
            size: 0,
            path,
        })
    }

    /// The same, with its first MiB read: a short input is at its end, and its writer done.
    ///
    /// # Errors
    /// Those of the input; `Unsupported` for a file that is larger than any value.
    pub(crate) fn begun(mut self) -> Result<Self> {
        if self.size > MAX_STREAMED {
            return Err(too_large("an input", MAX_STREAMED, &self.path));
        }
        let mut first = Vec::new();
        let read = self.reader.by_ref().take(BEGIN).read_to_end(&mut first);
        read.map_err(|e| Error::io(e, "read", &self.path))?;
        self.reader = Box::new(io::Cursor::new(first).chain(self.reader));
        Ok(self)
    }

    /// Its bytes, if that is known.
    pub(crate) fn size(&self) -> Option<u64> {
        (self.size > 0).then_some(self.size)
    }

    /// All of it.
    ///
    /// # Errors
    /// Those of [`read`].
    pub(crate) fn whole(self) -> Result<Vec<u8>> {
        read(self.reader, self.size, &self.path)
    }

    /// All of it, which is a list of keys.
    ///
    /// # Errors
    /// Those of [`read`]; `Unsupported` at a line that is longer than one with a key.
    pub(crate) fn whole_of_keys(self) -> Result<Vec<u8>> {
        let max = max();
        let mut reader = BufReader::new(self.reader);
        let mut lines = Vec::new();
        let mut left = (self.size <= max).then_some(max);
        while let Some(bytes) = left {
            let may_have = bytes.min(MAX_KEY_LINE);
            match append_line(&mut reader, &mut lines, may_have, &self.path) {
                Ok(true) => left = max.checked_sub(lines.len() as u64),
                Ok(false) => return Ok(lines),
                Err(e) if e.kind() == ErrorKind::Unsupported && bytes <= MAX_KEY_LINE => break,
                Err(e) => return Err(e),
            }
        }
        Err(too_large("an input", max, &self.path))
    }
}

/// Whether a file is a device that is read byte by byte, such as `/dev/zero`, and no terminal.
fn is_device(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.file_type().is_char_device() && !file.is_terminal())
}

/// A device, which is refused unless it soon ends.
struct Device<R> {
    device: io::Take<R>,
}

impl<R: Read> Device<R> {
    fn new(device: R) -> Self {
        Device {
            device: device.take(OF_DEVICE + 1),
        }
    }
}

impl<R: Read> Read for Device<R> {
    /// # Errors
    /// Those of the device, and `FileTooLarge` where it goes on.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.device.read(buf)?;
        if self.device.limit() == 0 {
            let why = "a device that does not end; a part of it can be piped, as by head -c";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        Ok(read)
    }
}

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buf);
        read.map_err(|e| match e.kind() {
            // To be tried again.
            io::ErrorKind::Interrupted => e,
            _ => Error::io(e, "read", &self.path).into(),
        })
    }
}

/// Reads a file.
///
/// # Errors
/// Those of [`read`].
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>> {
    Input::open(path)?.whole()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_not_read() {
        let path = Path::new("endless");
        let refused = read(io::repeat(7), MAX_VALUE + 1, path).unwrap_err();
        assert!(
            refused.to_string().contains("an input of more than"),
            "{refused}"
        );
        assert_eq!(read(&b"abc"[..], 0, path).unwrap(), b"abc");
        assert_eq!(
            read(&b"abc"[..], 100, path).unwrap(),
            b"abc",
            "it has shrunk"
        );
    }

    #[test]
    fn a_device_that_goes_on_is_refused() {
        let of = |len| {
            let mut all = Vec::new();
            Device::new(io::repeat(7).take(len)).read_to_end(&mut all)
        };
        assert_eq!(of(OF_DEVICE).unwrap() as u64, OF_DEVICE);
        for len in [OF_DEVICE + 1, u64::MAX] {
            assert_eq!(of(len).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        }
    }

    #[test]
    fn a_key_that_does_not_end_is_not_read() {
        let list = |bytes: Box<dyn Read>| Input {
            reader: bytes,
            size: 0,
            path: PathBuf::from("list"),
        };
        let longest = list(Box::new(io::repeat(b'x').take(MAX_KEY_LINE)));
        assert_eq!(longest.whole_of_keys().unwrap().len() as u64, MAX_KEY_LINE);
        let endless = list(Box::new((&b"a\nb\n"[..]).chain(io::repeat(b'x'))));
        let refused = endless.whole_of_keys().unwrap_err().to_string();
        assert!(refused.contains("a key of 8 MiB"), "{refused}");
        let lines = list(Box::new(&b"a\n\nb"[..]));
        assert_eq!(lines.whole_of_keys().unwrap(), b"a\n\nb");
    }

    #[test]
    fn an_input_that_has_begun_loses_nothing() {
        for len in [0, 5, BEGIN, BEGIN + 5] {
            let input = Input {
                reader: Box::new(io::repeat(7).take(len)),
                size: 0,
                path: PathBuf::from("input"),
            };
            assert_eq!(input.begun().unwrap().whole().unwrap().len() as u64, len);
        }
    }

    #[test]
    fn a_file_that_is_too_large_is_refused_before_it_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(MAX_STREAMED + 1).unwrap();
        let refused = Input::open(file.path()).unwrap().begun().err().unwrap();
        assert!(
            refused.to_string().contains("4 GiB less a byte"),
            "{refused}"
        );
    }

    #[test]
    fn a_line_that_does_not_end_is_not_read() {
        let path = Path::new("endless");
        let mut line = Vec::new();
        let mut input = &b"abc\nabcd\n"[..];
        assert!(read_line(&mut input, &mut line, 4, path).unwrap());
        assert_eq!(line, b"abc\n");
        let refused = read_line(&mut input, &mut line, 4, path).unwrap_err();
        assert!(refused.to_string().contains("a line of more than 4 bytes"));
        let mut endless = io::BufReader::new(io::repeat(7));
        assert!(read_line(&mut endless, &mut line, 1 << 16, path).is_err());
        let mut last = &b"ab"[..];
        assert!(read_line(&mut last, &mut line, 4, path).unwrap());
        assert!(!read_line(&mut last, &mut line, 4, path).unwrap());
        assert_eq!(line, b"");
    }
}
