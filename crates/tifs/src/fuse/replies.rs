//! Replies that several requests share.

use fuser::{Errno, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr};

use super::adapter::Adapter;
use super::convert;
use crate::error::{Error, Result};
use crate::file_system::Attributes;
use crate::schema::InodeNumber;

impl Adapter {
    /// The errno of an error. If the volume caused it, it is logged with the operation's inode or
    /// directory.
    pub(super) fn errno(
        &self,
        operation: &'static str,
        inode: impl Into<Option<InodeNumber>>,
        error: &Error,
    ) -> Errno {
        self.failures.note(operation, inode, error);
        convert::errno(error.errno())
    }

    pub(super) fn reply_entry(
        &self,
        operation: &'static str,
        inode: InodeNumber,
        result: Result<Attributes>,
        reply: ReplyEntry,
    ) {
        self.wakeups.answered();
        match result {
            Ok(entry) => {
                self.cached_writes.answered(entry.number);
                reply.entry(
                    &convert::FOR_EVER,
                    &convert::attributes(&entry),
                    convert::GENERATION,
                );
            }
            Err(error) => reply.error(self.errno(operation, inode, &error)),
        }
    }

    pub(super) fn reply_attributes(
        &self,
        operation: &'static str,
        inode: InodeNumber,
        result: Result<Attributes>,
        reply: ReplyAttr,
    ) {
        self.wakeups.answered();
        match result {
            Ok(attributes) => {
                self.cached_writes.answered(attributes.number);
                reply.attr(&convert::FOR_EVER, &convert::attributes(&attributes));
            }
            Err(error) => reply.error(self.errno(operation, inode, &error)),
        }
    }

    pub(super) fn reply_empty(
        &self,
        operation: &'static str,
        inode: InodeNumber,
        result: Result<()>,
        reply: ReplyEmpty,
    ) {
        self.wakeups.answered();
        match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errno(operation, inode, &error)),
        }
    }

    /// Replies with a value, or with its size if the caller has no room for it and asks only for
    /// that.
    pub(super) fn reply_value(
        &self,
        operation: &'static str,
        inode: InodeNumber,
        result: Result<impl AsRef<[u8]>>,
        room: u32,
        reply: ReplyXattr,
    ) {
        match result {
            Ok(value) => {
                let value = value.as_ref();
                if room == 0 {
                    reply.size(value.len() as u32);
                } else if value.len() <= room as usize {
                    reply.data(value);
                } else {
                    reply.error(Errno::ERANGE);
                }
            }
            Err(error) => reply.error(self.errno(operation, inode, &error)),
        }
    }
}
