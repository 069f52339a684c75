//! The commands, one per file: each has its arguments (`Args`) and `run`.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod compact;
pub(crate) mod delete;
pub(crate) mod downgrade;
pub(crate) mod dump;
pub(crate) mod families;
pub(crate) mod gc;
pub(crate) mod get;
pub(crate) mod ime;
pub(crate) mod ingest;
pub(crate) mod inspect;
pub(crate) mod load;
pub(crate) mod mvcc;
pub(crate) mod options;
pub(crate) mod program;
pub(crate) mod put;
pub(crate) mod repair;
pub(crate) mod scan;
#[cfg(feature = "serve")]
pub(crate) mod serve;
pub(crate) mod space;
pub(crate) mod stats;
pub(crate) mod top;
