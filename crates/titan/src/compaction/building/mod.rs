//! Running a compaction, and writing the survivors of it or of a flush.
//!
//! Owns these steps:
//!
//! * A [`Compaction`](inputs::Compaction) names inputs and output level, and can be run anywhere.
//!   [`job`] runs it and returns the edit that installs it.
//! * [`survival`] decides, version by version, on the survivors of a key: the rules that snapshots,
//!   deletions, single deletions and range deletions impose. [`older_versions`] says whether older
//!   versions may be below. [`merge`] walks the inputs and carries out the decisions.
//! * [`combine`] makes one entry of merge operands. [`filter`] runs the
//!   [compaction filter](crate::filter) of a family.
//! * [`inlining`] brings values back into tables where values are separated no more.
//! * [`output`] writes the survivors to tables and their large values to blob files, and cuts
//!   tables where [`grandparents`] says. [`job_env`] says where files go, [`job_output`] which
//!   files were written, [`references`] which pointers were not written again.
//! * [`shadows`] estimates the bytes that a flush shadows at lower levels, so that compactions drop
//!   them soon.
//!
//! Promises: every reader, at every snapshot, sees the same before and after; a job that fails
//! leaves no file that a version names. Assumes: the inputs are the tables of one version, and
//! nothing older than them is above. It takes no lock and installs nothing.

pub(crate) mod combine;
pub(crate) mod filter;
pub(crate) mod grandparents;
pub(crate) mod inlining;
pub(crate) mod inputs;
pub(crate) mod job;
pub(crate) mod job_env;
pub(crate) mod job_output;
pub(crate) mod merge;
pub(crate) mod older_versions;
pub(crate) mod output;
pub(crate) mod references;
pub(crate) mod shadows;
pub(crate) mod survival;
