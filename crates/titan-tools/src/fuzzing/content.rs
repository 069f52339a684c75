//! Files in memory.

use titan::Result;
use titan::vfs::ReadableFile;

/// The bytes of a file.
pub(super) struct Content(pub(super) Vec<u8>);

impl ReadableFile for Content {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.0.get(at..));
        let rest = rest.unwrap_or_default();
        let n = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..n), rest.get(..n)) {
            to.copy_from_slice(from);
        }
        Ok(n)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }
}
