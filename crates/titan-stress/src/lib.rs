//! Many threads on a real file system, killed again and again: nothing acknowledged is lost.
//!
//! A campaign runs one *life* of a process after the other on the same database. The process, the
//! program `titan-stress`, opens the database, tells what it finds, and then works on it with many
//! threads; before and after each operation it tells so through a pipe. The campaign keeps that
//! outside record, ends the life at a random moment, and compares what the next life finds with
//! it. Kills meet recovery, work and closing alike.
//!
//! | module | owns |
//! |---|---|
//! | [`op`], [`state`], [`value`], [`event`], [`plan`] | what both sides speak of: operations, what keys hold, values that say what they are, the lines of the pipe, what a life is to be |
//! | [`stressed`] | the process that is killed |
//! | [`ledger`] | the outside record, and whether what is found agrees |
//! | `campaign`, `trial`, `counts` | modes, one database after the other; its lives; figures |
//! | `process` | one life, seen from outside |
//! | `ground`, `disk`, `memory_group`, `shutdown` | where the database lies and what ends with the process; mounts and groups that always go |
//! | `story` | what happened to a key |

mod campaign;
mod counts;
mod disk;
pub mod event;
mod ground;
pub mod ledger;
mod memory_group;
pub mod op;
pub mod plan;
mod process;
mod shutdown;
pub mod state;
mod story;
pub mod stressed;
mod trial;
pub mod value;

pub use campaign::{Mode, stress};
