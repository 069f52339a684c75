//! Garbage collection of blob files: gives back the space of values to which nothing points.
//!
//! Pointers in the tree name *logical* files for ever. A collection takes the logical files of some
//! physical ones, copies the records to which any live table points into one new physical file, in
//! the order of their keys, and writes a relocation map. One edit then relocates all of them at
//! once. No key is looked up, nothing in the tree changes, no writer waits (GC-1). Every reader,
//! also of old versions, finds the records at their new location, so the old files are deleted at
//! once.
//!
//! | module | does |
//! |---|---|
//! | [`space`] | measures the space of the files and the live data |
//! | [`selection`] | selects the files that are worth collecting, and decides how soon |
//! | [`pinned`] | knows the records that only older versions see |
//! | [`range`] | selects the files of a user's collection of a range of keys |
//! | [`rate`] | limits the rate of collections, and of writes if collections do not keep up |
//! | [`live`] | gathers the live records |
//! | [`source`] | reads records of one physical file in their order |
//! | [`report`], [`disk_usage`] | report the data that takes space and the holders that pin it |
//! | [`job`] | merges the records of all sources into the new file |
//! | [`punch`] | gives dead blocks back without copying, where a family asks for that |
//!
//! The collector guarantees: a record that a live version can reach is copied, verified, before its
//! file is removed (BLOB-1, BLOB-2); a record that fails its checksum fails the collection, and its
//! file stays as it is. It assumes: tables report all their pointers, and no job adds a pointer to
//! a file that existed when the collection began: compactions only carry on the pointers that they
//! read.

pub(crate) mod disk_usage;
pub(crate) mod job;
pub(crate) mod live;
mod options;
pub(crate) mod pinned;
pub(crate) mod punch;
pub(crate) mod range;
pub(crate) mod rate;
pub(crate) mod report;
pub(crate) mod selection;
mod source;
pub(crate) mod space;

pub use options::CollectGarbageOptions;
