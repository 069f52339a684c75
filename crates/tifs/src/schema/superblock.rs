//! The values that a volume has once.

use bytes::{Buf, Bytes};

use super::value::{FORMAT, take, take_format};
use crate::error::{Error, Result};

/// Says that a database is a volume, and of which format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Identifies the volume.
    pub uuid: u128,
    /// Parts of the format that a version must know to use the volume. None are defined.
    pub features: u64,
}

impl Superblock {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = vec![FORMAT];
        value.extend_from_slice(&self.uuid.to_be_bytes());
        value.extend_from_slice(&self.features.to_be_bytes());
        value
    }

    /// The superblock of a stored form.
    ///
    /// # Errors
    /// `EIO` if it is damaged or needs a later version.
    pub fn decode(value: &Bytes) -> Result<Superblock> {
        const WHAT: &str = "the superblock";
        let value = &mut value.clone();
        take_format(value, WHAT)?;
        let uuid = take(value, WHAT, Buf::try_get_u128)?;
        let features = take(value, WHAT, Buf::try_get_u64)?;
        if features != 0 {
            return Err(Error::corrupt(format!(
                "the volume needs features {features:#x}, which this version does not know: use a \
                 later version"
            )));
        }
        Ok(Superblock { uuid, features })
    }
}

/// The counters of a volume. They are counted in memory while the volume is open, and stored when
/// it is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Units of 512 bytes in all files, as `st_blocks` counts them.
    pub blocks: u64,
    /// Files, directories and everything else that has an inode.
    pub inodes: u64,
}

impl Usage {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = vec![FORMAT];
        value.extend_from_slice(&self.blocks.to_be_bytes());
        value.extend_from_slice(&self.inodes.to_be_bytes());
        value
    }

    /// The counters of a stored form.
    pub fn decode(value: &Bytes) -> Result<Usage> {
        const WHAT: &str = "the counters of the volume";
        let value = &mut value.clone();
        take_format(value, WHAT)?;
        let blocks = take(value, WHAT, Buf::try_get_u64)?;
        let inodes = take(value, WHAT, Buf::try_get_u64)?;
        Ok(Usage { blocks, inodes })
    }
}
