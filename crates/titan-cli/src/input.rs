//! Reads values from files and pipes.

use std::io::{self, Read};
use std::path::Path;

use titan::vfs::{StdVfs, Vfs};
use titan::{Error, Result};

/// The largest value, with room for its key: the engine's batches have up to 4 GiB less 64 MiB.
pub(crate) const MAX_VALUE: u64 = (4 << 30) - (64 << 20) - (1 << 20);

/// Reads an input to its end. `size` is what is known of its length.
///
/// # Errors
/// `Unsupported` if it is larger than a value can be, or takes more than half of the memory that is left:
/// some inputs never end.
pub(crate) fn read(mut input: impl Read, size: u64, path: &Path) -> Result<Vec<u8>> {
    let memory = StdVfs.resources().memory;
    let max = memory.map_or(MAX_VALUE, |memory| MAX_VALUE.min(memory.left / 2));
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
    let why = match max {
        MAX_VALUE => "the largest value, 4 GiB less 65 MiB",
        _ => "half of the memory that is available",
    };
    Err(Error::unsupported(format!("an input of more than {max} bytes, {why}")).in_file(path))
}

/// Reads a file.
///
/// # Errors
/// Those of [`read`].
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>> {
    let failed = |e| Error::io(e, "read", path);
    let file = std::fs::File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    read(file, size, path)
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
}
