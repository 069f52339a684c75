//! Serves a [`FileSystem`](crate::file_system::FileSystem) to the kernel, by the FUSE protocol.
//!
//! The kernel is the cache and the lock manager of a mounted volume: one mount owns the volume, so
//! what the kernel was told stays true until the kernel itself changes it. Attributes, names and the
//! absence of names are therefore cached without a limit, files are opened and closed without asking,
//! and locks never leave the kernel (docs/adr/0040).
//!
//! The protocol is spoken by the crate `fuser`. No type of it leaves this module, so that another
//! implementation of the protocol can replace it:
//!
//! | module | owns |
//! |---|---|
//! | `session` | mounting, serving threads, unmounting: all that others see |
//! | `adapter` | requests of the kernel to calls of the file system, results to replies |
//! | `negotiation` | what the kernel offers and what of it is used |
//! | `convert` | types of the file system to those of the protocol, and back |
//! | `kernel_cache` | what the kernel is told about its cache without having asked |
//! | `replies` | the replies that several requests have |
//! | `cached_writes` | what becomes of data that the kernel had accepted, on a full volume |
//! | `stale_attributes` | inodes of which the kernel may keep attributes that are no longer true |
//! | `wakeups` | idle processors that stay awake while programs wait for answers |
//! | `seek` | finding data and holes although the kernel has not written all of them |
//! | `file_clock` | the clock by which the kernel gives files their times |
//! | `failures` | the log of errors that are the volume's fault |

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
