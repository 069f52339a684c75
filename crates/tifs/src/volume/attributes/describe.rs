//! Descriptions of a volume and its files, for users and monitoring.
//!
//! A mount shows them as two extended attributes that no list has and nobody can set:
//! [`STATISTICS`] of any file describes the volume, [`DESCRIPTION`] the file. Both are JSON.

use bytes::Bytes;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::schema::InodeNumber;
use crate::volume::state::volume::Volume;

/// The attribute that describes the volume.
pub const STATISTICS: &str = "tifs.statistics";
/// The attribute that describes the file.
pub const DESCRIPTION: &str = "tifs.description";

/// The size of a volume, and its counters.
#[derive(Clone, Debug, Serialize)]
pub struct Statistics {
    /// The identity of the volume.
    pub uuid: String,
    /// The directory of the volume now, if it is known. It may have been moved.
    pub directory: Option<String>,
    /// Files, directories and all else that has an inode.
    pub inodes: u64,
    /// Bytes that files take, as `du` counts them.
    pub bytes: u64,
    /// Inodes of which something is yet to be deleted, by the background.
    pub to_reclaim: u64,
    /// Inodes to which the kernel refers.
    pub referenced: u64,
    /// Bytes that the device still has for all users.
    pub available: u64,
    /// The store's report on its files.
    pub store: serde_json::Value,
}

/// The storage of a file.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// The number.
    pub inode: u64,
    /// The kind.
    pub kind: String,
    /// Bytes of the content.
    pub size: u64,
    /// Bytes that it takes, as `du` counts them.
    pub allocated: u64,
    /// Names that lead to it.
    pub links: u32,
    /// The directory in which it was created, or to which it was moved last.
    pub parent: u64,
    /// Whether the content is stored beside the attributes.
    pub inline: bool,
    /// Bytes of a block; 0 if the content is inline.
    pub block_size: u64,
}

impl Volume {
    /// The size of the volume, and its counters.
    ///
    /// Cost: that of the store's report; for the engine, a list of its directory.
    pub fn statistics(&self) -> Result<Statistics> {
        let usage = self.usage();
        Ok(Statistics {
            uuid: format!("{:032x}", self.superblock.uuid),
            directory: (self.options.directory)().map(|path| path.display().to_string()),
            inodes: usage.inodes,
            bytes: usage.blocks * 512,
            to_reclaim: self.reclaim_queue.len() as u64,
            referenced: self.references.len() as u64,
            available: (self.options.host_space)()?.available,
            store: self.kv.report()?,
        })
    }

    /// The storage of a file.
    pub fn describe(&self, number: InodeNumber) -> Result<Description> {
        let inode = self.stored(number)?.inode;
        Ok(Description {
            inode: number.0,
            kind: format!("{:?}", inode.kind).to_lowercase(),
            size: inode.size,
            allocated: inode.blocks * 512,
            links: inode.links,
            parent: inode.parent.0,
            inline: inode.is_inline(),
            block_size: inode.block_size(),
        })
    }

    /// The value of an attribute that is not stored, if it is one.
    pub(in crate::volume) fn described(
        &self,
        number: InodeNumber,
        name: &[u8],
    ) -> Option<Result<Bytes>> {
        if name == STATISTICS.as_bytes() {
            Some(self.statistics().and_then(|value| json(&value)))
        } else if name == DESCRIPTION.as_bytes() {
            Some(self.describe(number).and_then(|value| json(&value)))
        } else {
            None
        }
    }
}

fn json(value: &impl Serialize) -> Result<Bytes> {
    let text = serde_json::to_vec(value);
    Ok(text.map_err(|e| Error::corrupt(e.to_string()))?.into())
}
