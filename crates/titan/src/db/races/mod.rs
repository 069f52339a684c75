//! Steps of one thread between two steps of another, in each order that matters.
//!
//! Each test stops a thread of a real database at a [gate](crate::gates), performs operations that
//! could harm it, lets it go on, and compares every answer with the entries that must be visible.
//! The database is on a file system in memory. At the end of each test it is finished
//! ([`Store::finish`](store::Store::finish)): nothing may have failed, the directory has exactly
//! the files that the versions name, a check finds nothing, and the next opening has the same
//! contents.
//!
//! | file | the thread that is stopped |
//! |---|---|
//! | [`reads`] | a reader that takes its super version and its sequence number |
//! | [`values`] | a reader that knows where its values are |
//! | [`snapshots`] | a thread that takes a snapshot |
//! | [`commits`] | the leader of the commit queue, also while it switches memtables |
//! | [`conditions`] | a writer between the check of its conditions and its commit |
//! | [`flushes`], [`compactions`], [`collections`], [`jobs`] | a job between its output and its installation |
//! | [`manifests`] | a job that replaces the MANIFEST |
//! | [`checkpoints`] | a checkpoint between its steps |
//! | [`families`] | a thread that creates or drops a family |
//! | [`bypasses`] | a thread that puts a value from a reader, or ingests files |
//! | [`ingestions`] | one that ingests files, or deletes a range with its tables |
//! | [`options`] | a thread that changes options |
//! | [`warm_up`] | the thread that reads the database into the kernel's cache |
//!
//! The models (`db/tests/models.rs` and others) try all orders of small parts, and the `shuttle`
//! campaign random orders of random work. Here the order is given, and so is the work that makes a
//! mistake visible.

mod bypasses;
mod checkpoints;
mod collections;
mod commits;
mod compactions;
mod conditions;
mod families;
mod flushes;
mod ingestions;
mod jobs;
mod manifests;
mod options;
mod reads;
mod snapshots;
mod store;
mod values;
mod warm_up;
