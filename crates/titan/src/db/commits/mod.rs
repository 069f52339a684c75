//! Committing batches.
//!
//! | file | owns |
//! |---|---|
//! | [`commit`] | actions of the database at the stages of the [commit pipeline](crate::write::pipeline); switching memtables |
//! | [`conditions`] | batches that are committed only if certain keys were not written meanwhile |
//! | [`stalls`] | whether and how long writes wait for jobs |
//!
//! Promises: a commit takes the state lock only if writes are stalled or a memtable is full.
//! Assumes: functions that only a leader may call are called with its token,
//! [`Lead`](crate::write::queue::Lead).

pub(super) mod commit;
pub(super) mod conditions;
pub(super) mod stalls;
