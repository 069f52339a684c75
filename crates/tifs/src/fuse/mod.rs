//! Serves a [`FileSystem`](crate::file_system::FileSystem) to the kernel, by the FUSE protocol.
//!
//! The kernel is the cache and the lock manager of a mounted volume: one mount owns the volume, so
//! an answer stays true until the kernel itself changes the volume. Attributes, names and absent
//! names are cached without a limit, files are opened and closed without asking, and locks never
//! leave the kernel (docs/adr/0040-kernel-caches-and-locks.md).
//!
//! The crate `fuser` speaks the protocol. No type of it leaves this module.
//!
//! | module | owns |
//! |---|---|
//! | `session` | mounting, serving threads, unmounting: the face for other modules |
//! | `adapter` | requests of the kernel to calls of the file system, results to replies |
//! | `negotiation` | the features of the kernel, and those that a mount uses |
//! | `convert` | types of the file system to those of the protocol, and back |
//! | `kernel_cache` | notifications to the kernel about its cache |
//! | `replies` | replies that several requests share |
//! | `cached_writes` | writeback errors: data that the kernel accepted and we could not store |
//! | `stale_attributes` | inodes whose attributes in the kernel may be stale |
//! | `wakeups` | idle processors that stay awake while programs wait for answers |
//! | `seek` | finding data and holes although the kernel has not written all of them |
//! | `file_clock` | the clock by which the kernel stamps files |
//! | `failures` | the log of errors that the volume causes |

mod adapter;
mod cached_writes;
mod convert;
mod failures;
mod file_clock;
mod kernel_cache;
mod negotiation;
mod replies;
mod seek;
mod session;
mod stale_attributes;
mod wakeups;

pub use file_clock::FileClock;
pub use session::{Options, Session, Unmounter};
