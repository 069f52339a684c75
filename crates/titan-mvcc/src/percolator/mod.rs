//! The calls of Percolator transactions, with the meaning that TiKV gives them.
//!
//! A client of these calls names its transaction by its start, a timestamp of the oracle. It *prewrites* all keys:
//! that locks them, with the values. Then it takes a commit timestamp and commits the *primary* key, with which the
//! transaction has committed, and then the other keys. If it dies, others find its locks, and the lock or
//! the version of the primary key says how the transaction ends. Each call is atomic: one batch of the engine. Each
//! may be repeated.
//!
//! [`Transaction`](crate::Transaction) makes these calls for an application; a server makes them for its
//! clients. Assumed of clients, as TiKV does: starts, commit timestamps and timestamps for update are the oracle's,
//! each start names one transaction, and a commit timestamp is taken after all prewrites have returned.
//!
//! | file | owns |
//! |---|---|
//! | `record` | how a transaction ended, and what a key has, as its versions say |
//! | `prewrite`, `commit`, `rollback` | the calls of these names |
//! | `pessimistic` | pessimistic locks and their rollback |
//! | `status` | the status of a transaction by its primary key; heartbeats |
//! | `secondaries` | the status of an async commit |
//! | `resolve` | finding locks, and ending all those of a transaction |

mod calls;
mod commit;
mod end_locks;
mod mutation;
mod owner_status;
mod pessimistic;
mod prewrite;
mod resolve_for_read;
mod resolve_for_write;
mod resolve_left;
mod rollback;
mod secondaries;
mod status;

pub use calls::Percolator;
pub(crate) use commit::commit_at;
pub(crate) use end_locks::end_locks;
pub use mutation::Mutation;
pub(crate) use pessimistic::pessimistic_lock;
pub use pessimistic::{PessimisticLock, Wait};
pub(crate) use prewrite::prewrite;
pub use prewrite::{Prewrite, Prewritten};
pub(crate) use resolve_for_read::{ReadFrom, resolve_for_read};
pub(crate) use resolve_for_write::wait_for_locks;
pub(crate) use resolve_left::{end_expired_locks, end_orphaned_locks};
pub(crate) use rollback::release_locks;
pub use secondaries::SecondariesStatus;
pub use status::TransactionStatus;
pub(crate) use status::heartbeat;
