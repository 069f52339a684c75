//! A durable node of one machine that speaks TiKV's protocol. It is not replicated.
//!
//! A [`Node`] serves the placement driver and the key-value store of a cluster of one on one port,
//! from a directory. Clients of TiKV run on it unchanged, and later on a cluster:
//! `docs/scale-out.md` says what differs.
//!
//! ```no_run
//! # fn main() -> titan_server::Result<()> {
//! use titan_server::{Node, NodeOptions};
//!
//! let options = NodeOptions::new(([127, 0, 0, 1], 2379).into());
//! let node = Node::start("data", &options)?;
//! println!("{}", node.address());
//! node.run_until_signal()
//! # }
//! ```
//!
//! # Promises
//!
//! - An acknowledged write survives a crash of the process, and of the machine unless
//!   [`StorageOptions::sync`] is off. So do locks, regions, safe points and handed-out numbers.
//! - A call is done as a whole or not at all, also if its client dies meanwhile.
//! - Only timestamps in memory and short reads run on threads of the transport: reads on half of
//!   them at most, and only while they are quick. Calls that run are bounded in number, their
//!   requests in bytes from their arrival on, and their answers until these are sent; beyond that
//!   the server is busy.
//! - A scan returns as many rows as it was asked for, or all of its region.

#[cfg(not(doc))]
#[doc(hidden)]
pub mod internals;
pub mod proto;

mod calls;
mod error;
mod metrics;
mod node;
mod options;
mod permits;
mod raw;
mod records;
mod regions;
mod server;
mod services;

pub use error::{Error, Result};
pub use options::{Limits, NodeOptions, RegionSizes, StorageOptions, TlsFiles};
pub use server::Node;
