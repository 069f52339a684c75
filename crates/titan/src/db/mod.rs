//! The database: opening, recovering, committing, background jobs, closing.
//!
//! | file | owns |
//! |---|---|
//! | [`core`] | what all parts share, by owner, and what ends when the last handle is dropped |
//! | [`context`], [`lifecycle`] | options, statistics and listeners; whether the database is open |
//! | [`files`], [`purge`] | the directory, its lock, open files; deleting what is not needed |
//! | [`readers`] | snapshots, iterators and versions in use |
//! | [`handle`], [`column_family`] | the handles of users |
//! | [`family`] | a column family as readers, writers and jobs share it |
//! | [`directory`], [`wal_dir`] | whether a directory may be opened, and what is in it; where its WAL files are |
//! | [`open`], [`wals`], [`replay`], [`replay_target`], [`kept`] | from there to a running database |
//! | [`wal_chain`], [`wal_damage`], [`unreplayed`] | how far WAL files continue each other; what is done about damage, and what is left after it |
//! | [`lost`] | keeping files that are not used any more |
//! | [`secondary`], [`follower`] | the same beside a process that writes the database |
//! | [`families`], [`dropped`] | creating and dropping families; the names of those that were dropped |
//! | [`commit`] | what the database does at the stages of the commit pipeline; switching memtables |
//! | [`conditions`] | batches that are committed only if certain keys were not written meanwhile |
//! | [`admission`], [`stalls`] | whether writes are stalled, and whether jobs must hurry; how long writes wait |
//! | [`job`], [`install`] | how every job is run, released and reported; how its edits become durable and visible |
//! | [`state`], [`writing`] | what the state lock guards: memtables to flush, running jobs, what was evaluated of families, stalls; whether a user writes |
//! | [`wal_limit`] | whether WAL files are too large, without that lock |
//! | [`background`], [`running`], [`flush`], [`survivors`], [`compact`], [`collect`], [`in_memory`], [`warm_up`] | the threads and their jobs |
//! | [`room`], [`lack_of_room`] | what jobs may take of the room on the device, and jobs that wait for more |
//! | [`aged_memtables`] | flushing memtables whose entries a compaction filter is to see |
//! | [`estimate`], [`idle_cleanup`] | estimating what memtables shadow; idle cleanup |
//! | [`yielding`], [`niceness`], [`collection_rate`] | which jobs yield to reads, and when; the niceness of their threads; how fast a due collection may copy |
//! | [`foreign`] | counting, once, the pointers of tables that RocksDB wrote |
//! | [`collect_range`], [`pause`] | garbage collection as users control it |
//! | [`checkpoint`], [`staging`] | the database of one moment in another directory; a directory that appears whole |
//! | [`signals`] | how threads wake each other |
//! | [`stall_notifier`] | notifying listeners how writes are stalled |
//! | [`failure`], [`resume`] | refusing writes after a failure; accepting them again |
//! | [`load_options`] | loading the options that a database has recorded |
//! | [`metrics`] | sizes and counts |
//! | [`damaged_block`] | where a scan can go on after damage |
//! | [`approximate`] | sizes of ranges, and whether a key may exist, at little cost |
//! | [`set_options`] | changing options while the database is open; writing OPTIONS |
//! | [`table_properties`] | what collectors reported about the tables of a range |
//! | [`space`], [`pinned`], [`holders`], [`sizes`] | the report on space |
//!
//! Locks, in the order in which they are taken: the lead of the commit queue, the version set, the
//! state. The state lock is held for moments only, never during I/O.

mod admission;
mod aged_memtables;
mod approximate;
mod background;
mod checkpoint;
mod collect;
mod collect_range;
mod collection_rate;
mod column_family;
mod commit;
mod compact;
mod conditions;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod conditions_tests;
mod context;
mod core;
mod damaged_block;
mod directory;
mod dropped;
mod estimate;
mod failure;
mod families;
mod family;
mod files;
mod filtering;
mod flush;
mod follower;
mod foreign;
mod handle;
mod holders;
#[cfg(test)]
mod huge_file_tests;
mod idle_cleanup;
mod in_memory;
mod install;
mod job;
mod kept;
mod lack_of_room;
mod layout;
#[cfg(test)]
mod life_cycle_tests;
mod lifecycle;
mod load_options;
mod lost;
mod metrics;
#[cfg(all(test, loom))]
mod models;
mod niceness;
mod open;
mod pause;
mod pinned;
mod postponed;
mod purge;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod races;
mod readers;
mod replay;
mod replay_target;
mod resume;
mod room;
mod running;
mod secondary;
mod set_options;
mod signals;
mod sizes;
mod space;
mod staging;
mod stall_notifier;
mod stalls;
mod state;
mod survivors;
mod table_properties;
#[cfg(test)]
mod test_clock;
mod unknown_pointers;
mod unreplayed;
mod wal_chain;
mod wal_damage;
mod wal_dir;
mod wal_limit;
mod wals;
mod warm_up;
mod write_times;
mod writing;
mod yielding;

pub(crate) use directory::{
    check_files_exist, create_dir_durably, files_of, has_directory, refuse_tables_elsewhere,
    refuse_unreadable_tables, require_database,
};
pub(crate) use follower::Follower;
pub(crate) use layout::with_layout;
pub(crate) use lost::{LOST_DIR, link_to_lost};
pub(crate) use open::{random_uuid, session_id};
pub(crate) use purge::remove_leftovers;
pub(crate) use replay_target::ReplayTarget;
pub(crate) use unknown_pointers::refuse_unknown_pointers;
pub(crate) use unreplayed::Unreplayed;
pub(crate) use wal_chain::Chain;
pub(crate) use wal_dir::{record_wal_dir, without_wal_dir};
pub(crate) use wals::Wals;

pub use checkpoint::CheckpointSummary;
pub use column_family::ColumnFamily;
pub use conditions::Conditions;
pub use handle::Db;
pub use metrics::{FamilyMetrics, LevelMetrics, Metrics};
pub use pause::GarbageCollectionPause;
pub use secondary::Secondary;
pub use table_properties::TableMetadata;
