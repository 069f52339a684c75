//! The database: opening, recovering, committing, background work, closing.
//!
//! | file | owns |
//! |---|---|
//! | [`core`] | what all parts share, and what ends when the last handle goes |
//! | [`handle`], [`family`] | the faces users hold |
//! | [`directory`], [`wal_dir`] | whether a directory may be opened, and what is in it; where its WAL files are |
//! | [`open`], [`wals`], [`replay`], [`replay_target`] | from there to a running database |
//! | [`secondary`], [`follower`] | the same beside a process that writes the database |
//! | [`families`] | creating and dropping families |
//! | [`commit`] | a group of batches: WAL, memtables, publication; switching memtables |
//! | [`state`], [`writing`] | what the state lock guards: memtables to flush, who runs what, what is judged of families, stalls; whether somebody writes |
//! | [`wal_limit`] | whether WAL files are too large, without that lock |
//! | [`background`], [`running`], [`flush`], [`compact`], [`collect`], [`purge`], [`in_memory`], [`warm_up`] | the threads and their jobs |
//! | [`giving_way`] | which of them give way to readers, and when |
//! | [`foreign`] | counting, once, what tables of RocksDB refer to |
//! | [`collect_range`], [`pause`] | garbage collection as users control it |
//! | [`checkpoint`], [`staging`] | the database of one moment in another directory; a directory that comes into being whole |
//! | [`stall_news`] | telling listeners how writes are held back |
//! | [`failure`] | refusing writes after a failure, and `resume` |
//! | [`metrics`] | sizes and counts |
//! | [`space`], [`held`], [`holders`], [`sizes`] | what holds space back |
//!
//! Locks, in the order they are taken: the lead of the commit queue, the version set, the state.
//! The state lock is held for moments only, never over I/O.

mod background;
mod checkpoint;
mod collect;
mod collect_range;
mod commit;
mod compact;
mod core;
mod directory;
mod failure;
mod families;
mod family;
mod flush;
mod follower;
mod foreign;
mod giving_way;
mod handle;
mod held;
mod holders;
mod in_memory;
mod load_options;
mod look;
mod metrics;
#[cfg(all(test, loom))]
mod models;
mod open;
mod pause;
mod purge;
mod replay;
mod replay_target;
mod running;
mod secondary;
mod settle;
mod sizes;
mod space;
mod staging;
mod stall_news;
mod state;
mod wal_dir;
mod wal_limit;
mod wals;
mod warm_up;
mod writing;

pub(crate) use directory::{
    check_files_exist, create_dir_durably, files_of, has_directory, refuse_tables_elsewhere,
    refuse_unreadable_tables, require_database,
};
pub(crate) use follower::Follower;
pub(crate) use open::{random_uuid, session_id};
pub(crate) use purge::remove_leftovers;
pub(crate) use replay_target::ReplayTarget;
pub(crate) use wal_dir::{record_wal_dir, with_wal_dir, without_wal_dir};
pub(crate) use wals::{Chain, Wals};

pub use checkpoint::CheckpointSummary;
pub use family::ColumnFamily;
pub use handle::Db;
pub use metrics::{FamilyMetrics, LevelMetrics, Metrics};
pub use pause::GarbageCollectionPause;
pub use secondary::Secondary;
