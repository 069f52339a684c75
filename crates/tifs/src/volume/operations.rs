//! A volume as a [`FileSystem`]: the files of its folders have a method for each call.

use bytes::Bytes;

use crate::error::Result;
use crate::file_system::{
    Allocate, Attributes, Caller, Capacity, Changes, Existing, FileSystem, ListedEntry, Rename,
    Seek, WriteContext, Written, calls,
};
use crate::schema::InodeNumber;
use crate::volume::state::volume::Volume;

macro_rules! implement {
    ($($(#[$_:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        impl FileSystem for Volume {
            // The volume's own method of that name, if there is one: without it, this would call
            // itself, which does not compile.
            $(fn $name(&self $(, $arg: $type)*) $(-> $result)? {
                Volume::$name(self $(, $arg)*)
            })*
        }
    };
}

calls!(implement);
