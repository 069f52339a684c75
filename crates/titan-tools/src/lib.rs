//! Offline tools: the library side of `titan check`, `inspect`, `repair` and `downgrade`.
//!
//! | file | owns |
//! |---|---|
//! | [`check`](mod@check) | whether the files of a database are whole and agree with each other |
//! | [`inspect`](mod@inspect) | what one file contains, in readable form |
//! | [`repair`](mod@repair) | a working database from the files that survive |
//! | [`downgrade`](mod@downgrade) | a database that RocksDB can read, after garbage collection |
//!
//! The first two only read: they create, change or delete no file of the database, except `LOCK`,
//! which is created if it is missing. Repair does not change the database either, unless it is told
//! to repair in place. A downgrade changes it, in one step. For files with any content, the result
//! is a report: damage causes neither a panic nor an allocation larger than the bytes of a file can
//! justify.

#[macro_use(mutant)]
extern crate titan;

pub mod check;
pub mod downgrade;
mod forensics;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod inspect;
mod pointers;
mod progress;
pub mod repair;
#[cfg(test)]
mod testing;

pub use check::{CheckReport, check};
pub use downgrade::{DowngradePlan, DowngradeReport, RewrittenTable, downgrade, plan_downgrade};
pub use inspect::{FileSummary, InspectItem, inspect};
pub use progress::Progress;
pub use repair::{Loss, RepairReport, RepairTo, Salvaged, repair};
