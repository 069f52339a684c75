//! A file system in memory that records all operations.
//!
//! [`SimVfs`] implements [`titan::vfs::Vfs`]. A workload runs on it once; its [`Journal`] then
//! produces the file system after a crash at each operation. [`Fault`]s make operations fail, a
//! hook lets a test act between them, counters tell what was read and written.
//!
//! # What is assumed of the medium
//!
//! The model allows everything that the contract in [`titan::vfs`] allows and that a plausible
//! machine could do, and nothing else:
//!
//! 1. **Bytes.** A file's bytes reach the medium in blocks of 4 KiB. A successful sync writes all
//!    of them and the size. Until then each changed block may be on the medium or not, in any
//!    combination, and the last of them partly. A block that is not there reads as what the medium
//!    had before, or as zeros.
//! 2. **Size.** Until a sync, a file's size may be the old one, the new one, or any between,
//!    independent of the blocks.
//! 3. **Names.** Creating, renaming and removing change a directory; `sync_dir` makes that durable.
//!    Until then each change may be there or not: a prefix of all changes, as with a file system
//!    that journals its metadata in order, or any subset in which the changes of one name keep
//!    their order (a rename has two names). Syncing a file does not make its name durable, and a
//!    name may be durable although the file's bytes are not. A directory is a name in its parent:
//!    if that is lost, so are its contents.
//! 4. **A rename is atomic**, also between directories: the file is found under the old name or
//!    under the new one, never both or none. Syncing either directory makes it durable. A **link**
//!    adds a name, which is durable with its directory; the file exists as long as any of its names
//!    does.
//! 5. **Emptying a file** by creating it again changes its bytes: until a sync the old ones may
//!    reappear.
//! 6. **A failed sync** (see [`Fault::losing_pages`]) drops the unsynced blocks. Reads still see
//!    them; the medium never will, though later syncs report success. They read as zeros after a
//!    crash.
//! 7. **A crash of the process** alone ([`Loss::None`]) loses nothing, and makes nothing durable:
//!    the image records what is not synced, and can itself be crashed.
//! 8. Durable state does not change. Damage is inflicted by tests ([`SimVfs::flip_bit`]).
//! 9. **Bulk files** (`create_bulk`) keep unsynced bytes in the memory of the process: as long as
//!    there are any, reading them or asking for the size is an error, and a crash of the process
//!    loses them.
//! 10. **Logs** (`create_log`) are extended by zeros, 256 KiB at a time, more than real ones, and
//!     truncated when they are closed. After a crash of the process the zeros are there if the log
//!     was open. After a crash of the machine any number of them may be, also at the end of a log
//!     that was closed, because nothing syncs the truncation; [`Loss::All`] has none. Running
//!     programs do not see them.
//! 11. **Holes** are changes of bytes: until a sync, each punched block is there or not. A block
//!     that was punched as a whole is never torn.
//! 12. **System calls** ([`SimVfs::open_for_calls`]) write at any offset and set the size, which
//!     the engine's interface does not offer: a recorded run on a real file system is replayed by
//!     them. The rules for bytes and sizes are the same.
//!
//! Paths: the root and the working directory are the same, so `/db` and `db` are too.

mod content;
mod counters;
mod crash;
mod disk;
mod fault;
mod fault_text;
mod file;
mod handles;
mod journal;
mod latency;
mod op;
mod syscalls;
mod tools;
mod vfs;

#[cfg(test)]
mod tests;

pub use crash::Loss;
pub use fault::{Errno, Fault, FaultHandle};
pub use journal::{CrashPoint, CrashPoints, Journal};
pub use latency::Latency;
pub use op::{Call, FileId, FsOp, Mark, OpKind, Purpose};
pub use syscalls::CalledFile;
pub use vfs::SimVfs;
