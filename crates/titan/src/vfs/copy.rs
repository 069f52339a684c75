//! Gives the content of a file another name.

use std::path::Path;

use super::{Access, Vfs};
use crate::error::{Error, ErrorKind, Result};

/// Bytes copied at once.
const COPY_CHUNK: usize = 1 << 20;

/// Links `from` to the name `to` or, where the file system cannot, makes a durable copy. Returns
/// whether it is the same file. For files that no longer change.
pub fn link_or_copy(vfs: &dyn Vfs, from: &Path, to: &Path) -> Result<bool> {
    match vfs.link(from, to) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::Unsupported => {
            copy(vfs, from, to, &|| Ok(())).map(|()| false)
        }
        Err(e) => Err(e),
    }
}

/// Makes a durable copy. For files that no longer change. `goes_on` is asked before each piece.
pub(crate) fn copy(
    vfs: &dyn Vfs,
    from: &Path,
    to: &Path,
    goes_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let source = vfs.open(from, Access::Sequential)?;
    let mut target = vfs.create(to)?;
    let mut chunk = vec![0; COPY_CHUNK];
    let mut offset = 0;
    loop {
        goes_on()?;
        let n = source.read_at(offset, &mut chunk)?;
        let Some(read) = chunk.get(..n).filter(|read| !read.is_empty()) else {
            break;
        };
        target.append(read)?;
        offset += n as u64;
    }
    if offset != source.size()? {
        return Err(Error::corruption("the file changed while it was copied").in_file(from));
    }
    // ORDER: the content is durable before a MANIFEST names the file.
    target.sync()
}
