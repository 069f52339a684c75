//! The database: opening, recovering, committing, background jobs, closing.
//!
//! | folder, the lowest first | owns |
//! |---|---|
//! | [`on_disk`] | the directory of a database while nobody has it open |
//! | [`core`] | state that all parts of an open database share, by owner |
//! | [`resources`] | resources of the machine that jobs may take |
//! | [`commits`] | committing batches, and stalls |
//! | [`jobs`] | background jobs and their threads |
//! | [`recovery`] | from a directory to a running database |
//! | [`reports`] | metrics and the report on space |
//! | [`api`] | functions that users call |
//!
//! Locks, in the order in which they are taken: the lead of the commit queue, the version set, the
//! state. The state lock is held for moments only, never during I/O.

mod api;
mod commits;
mod core;
mod jobs;
#[allow(missing_docs, reason = "reached through `internals` only")]
mod on_disk;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod races;
#[allow(missing_docs, reason = "reached through `internals` only")]
mod recovery;
mod reports;
mod resources;
#[cfg(test)]
mod tests;

pub use on_disk::directory::{
    check_files_exist, create_dir_durably, files_of, has_directory, refuse_tables_elsewhere,
    refuse_unreadable_tables, require_database,
};
pub use on_disk::follower::Follower;
pub use on_disk::layout::with_layout;
pub use on_disk::leftovers::remove_leftovers;
pub use on_disk::lost_files::{LOST_DIR, link_to_lost};
pub use on_disk::wal_dir::{record_wal_dir, without_wal_dir};
pub use on_disk::wals::Wals;
pub use recovery::replay_target::ReplayTarget;
pub use recovery::unknown_pointers::refuse_unknown_pointers;
pub use recovery::unreplayed::Unreplayed;
pub use recovery::wal_chain::Chain;

pub use api::checkpoint::CheckpointSummary;
pub use api::column_family::ColumnFamily;
pub use api::handle::Db;
pub use api::pause::GarbageCollectionPause;
#[cfg(debug_assertions)]
pub use api::running::check_running;
pub use api::secondary::Secondary;
pub use api::table_properties::TableMetadata;
pub use commits::conditions::Conditions;
pub use jobs::file_deletion::DeletedFiles;
pub use reports::metrics::{FamilyMetrics, LevelMetrics, Metrics};
pub use reports::prometheus::prometheus_page;
