//! Many threads on a real file system, killed repeatedly: nothing acknowledged may be lost.
//!
//! A campaign runs *lives* of a process one after the other on the same database. The process, the
//! program `titan-stress`, opens the database, reports its contents, and then runs operations on it
//! with many threads; before and after each operation it reports that through a pipe. The campaign
//! keeps this outside record, ends the life at a random moment, and compares the contents that the
//! next life finds with it. Operations, the record of them and its comparison with contents are
//! those of `titan_testkit`; because the data are large, contents have the descriptions of values
//! instead of their bytes, and values in the database describe themselves
//! ([`stamp`](titan_testkit::ops::stamp)). Kills occur during recovery, operations and closing.
//!
//! | module | owns |
//! |---|---|
//! | [`keys`], [`event`], [`plan`] | what both sides share: keys and the meaning of their values, the lines of the pipe, the plan of a life |
//! | [`stressed`] | the process that is killed |
//! | [`outside_record`] | the outside record, and its comparison with what is found |
//! | `campaign`, `mode`, `database_run`, `counts` | runs the modes; what a mode is; the lives of one database; statistics |
//! | `process` | one life, seen from outside |
//! | `environment`, `disk`, `memory_group`, `shutdown` | where the database is and what ends with the process; mounts and groups that are always removed |
//! | `key_history` | the history of a key |

mod campaign;
mod counts;
mod database_run;
mod disk;
mod environment;
pub mod event;
mod key_history;
pub mod keys;
mod memory_group;
mod mode;
pub mod outside_record;
pub mod plan;
mod process;
mod shutdown;
pub mod stressed;

pub use campaign::stress;
pub use mode::Mode;
