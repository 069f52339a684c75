//! Percolator transactions, with TiKV's meaning.
//!
//! A client identifies its transaction by a start timestamp of the oracle. It *prewrites* all keys,
//! which locks them with their values. Then it takes a commit timestamp and commits the *primary*
//! key, which commits the transaction, and then the other keys. If the client dies, other
//! transactions find its locks, and the primary key decides on them. Each call may be repeated. A
//! call writes one batch of the engine, so it is atomic; `resolve_lock` and
//! `pessimistic_rollback_range` may write several.
//!
//! [`Transaction`](crate::Transaction) makes these calls for an application, a server makes them
//! for its clients. Assumed of clients, as in TiKV: all timestamps are the oracle's, each start
//! timestamp identifies one transaction, and a client takes its commit timestamp after all
//! prewrites have returned.
//!
//! # Locks of other transactions
//!
//! The status of the primary key decides: committed, rolled back, or running. Callers that meet a
//! lock resolve it, without latches:
//!
//! - A *reader* never waits for a decision (`resolve_for_read`).
//! - A *writer* must wait for running transactions (`resolve_for_write`).
//! - *Sweeps* and *openings* end locks whose owners have left (`resolve_left`).
//!
//! Each of them rolls back an expired transaction, through its primary key.
//!
//! | file | owns |
//! |---|---|
//! | `mutation` | a write of a transaction to one key |
//! | `rollback` | rollbacks, and their records |
//! | `commit` | commits |
//! | `secondaries` | the status of an async commit |
//! | `status` | the status of a transaction by its primary key; heartbeats |
//! | `end_locks` | ending locks of a transaction whose status is final |
//! | `owner_status` | the status of the transaction that owns a lock |
//! | `resolve_for_read`, `resolve_for_write`, `resolve_left` | the callers that resolve locks |
//! | `report_for_read` | reads that report locks to clients, which resolve them |
//! | `demands` | what a prewrite demands of keys: their presence, assertions |
//! | `one_phase` | commits in one phase |
//! | `prewrite` | prewrites |
//! | `pessimistic` | pessimistic locks and their release |
//! | `destroy_range` | the end of a range, its versions and locks |
//! | `calls` | the calls as clients make them |

mod calls;
mod commit;
mod demands;
mod destroy_range;
mod end_locks;
mod mutation;
mod one_phase;
mod owner_status;
mod pessimistic;
mod prewrite;
mod report_for_read;
mod resolve_for_read;
mod resolve_for_write;
mod resolve_left;
mod rollback;
mod secondaries;
mod status;

pub use calls::Percolator;
pub(crate) use commit::commit_at;
pub use demands::{AbsentKey, Assertion, ConflictCheck, Demands, KeyDemand};
pub(crate) use end_locks::end_locks;
pub use mutation::Mutation;
pub(crate) use pessimistic::pessimistic_lock;
pub use pessimistic::{AnswerRoom, LockDemands, LockedKey, PessimisticLock, Wait};
pub(crate) use prewrite::prewrite;
pub use prewrite::{Prewrite, Prewritten};
pub use report_for_read::KnownLocks;
pub(crate) use report_for_read::report_for_read;
pub(crate) use resolve_for_read::{ReadFrom, resolve_for_read};
pub(crate) use resolve_for_write::wait_for_locks;
pub(crate) use resolve_left::{end_expired_locks, end_orphaned_locks};
pub(crate) use rollback::release_locks;
pub use secondaries::SecondariesStatus;
pub(crate) use status::heartbeat;
pub use status::{CheckedStatus, StatusAction, StatusCheck, TransactionStatus};
