//! Garbage collection of blob files: gives back the space of values that nothing refers to.
//!
//! Pointers in the tree name *logical* files for ever. A collection takes the logical files of some
//! physical ones, copies the records that any live table refers to into one new physical file, in
//! the order of their keys, and writes a map of where each went. One edit then moves all of them at
//! once. No key is looked up, nothing in the tree changes, no writer waits (GC-1); every reader, of
//! old versions too, finds the records in their new place, so the old files are deleted at once.
//!
//! | module | does |
//! |---|---|
//! | [`space`] | measures what there is and what lives |
//! | [`choose`] | says which files are worth collecting, and how soon |
//! | [`held`] | knows what only older versions see |
//! | [`range`] | says which files a user's collection of a range of keys is about |
//! | [`pace`] | says how fast that is, and how fast writes are where it does not keep up |
//! | [`live`] | gathers what live tables refer to |
//! | [`source`] | reads records of one physical file in their order |
//! | [`report`], [`disk_usage`] | say what holds space back |
//! | [`job`] | merges the records of all sources into the new file |
//! | [`punch`] | gives dead blocks back without copying, where a family asks for that |
//!
//! What it promises: a record that a live version can reach is copied, verified, before its file is
//! given up (BLOB-1, BLOB-2); a record that fails its checksum fails the collection, and its file
//! stays as it is. What it assumes: tables tell every reference they hold, and no job adds a
//! reference to a file that was there when the collection began: compactions only carry on what
//! they read.

pub(crate) mod choose;
pub(crate) mod disk_usage;
pub(crate) mod held;
pub(crate) mod job;
pub(crate) mod live;
mod options;
pub(crate) mod pace;
pub(crate) mod punch;
pub(crate) mod range;
pub(crate) mod report;
mod source;
pub(crate) mod space;

pub use options::CollectGarbageOptions;
