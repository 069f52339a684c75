//! Files that are only in memory.

use std::sync::Arc;

use parking_lot::RwLock;

use super::{ReadableFile, WritableFile};
use crate::error::Result;

/// A file's content; every open handle sees appended bytes.
#[derive(Clone, Default)]
pub struct MemoryFile(Arc<RwLock<Vec<u8>>>);

impl MemoryFile {
    /// A file with this content, open for reading.
    pub fn open(bytes: impl Into<Vec<u8>>) -> Arc<dyn ReadableFile> {
        Arc::new(MemoryFile(Arc::new(RwLock::new(bytes.into()))))
    }

    /// The current content.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn content(&self) -> Vec<u8> {
        self.0.read().clone()
    }
}

impl WritableFile for MemoryFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.0.write().extend_from_slice(data);
        Ok(())
    }

    fn overwrite_start(&mut self, start: &[u8]) -> Result<()> {
        if let Some(old) = self.0.write().get_mut(..start.len()) {
            old.copy_from_slice(start);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

impl ReadableFile for MemoryFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let content = self.0.read();
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|at| content.get(at..));
        let rest = rest.unwrap_or_default();
        let n = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..n), rest.get(..n)) {
            to.copy_from_slice(from);
        }
        Ok(n)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.0.read().len() as u64)
    }
}
