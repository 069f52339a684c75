//! A volume as a [`FileSystem`]: the files of its folders have a method for each call.

use bytes::Bytes;

use crate::error::Result;
use crate::file_system::{
    Allocate, Attributes, Caller, Capacity, Changes, Existing, FileSystem, ListedEntry, Rename,
    Seek, WriteContext, Written, calls, own_method,
};
use crate::schema::InodeNumber;
use crate::volume::state::volume::Volume;

macro_rules! implement {
    ($($(#[$_:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        impl FileSystem for Volume {
            $(own_method! { Volume, $name ($($arg: $type),*) $($result)? })*
        }
    };
}

calls!(implement);
