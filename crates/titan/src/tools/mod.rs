//! Looking at a database from outside: the library side of `titan check` and `titan inspect`.
//!
//! | file | owns |
//! |---|---|
//! | [`check`](mod@check) | whether the files of a database are whole and agree with each other |
//! | [`inspect`](mod@inspect) | what one file contains, in readable form |
//! | [`repair`](mod@repair) | a database again, from what files survive |
//! | [`downgrade`](mod@downgrade) | a database that RocksDB can read, though garbage was collected |
//!
//! The first two only read: no file of the database is created, changed or removed (but for `LOCK`,
//! which comes into being where it is missing). Nor does a repair, unless it is told to repair in
//! place. A downgrade changes the database, in one step. Whatever the files hold, the answer is a
//! report; damage is neither a panic nor an allocation beyond what the bytes of a file can stand
//! for.

pub mod check;
pub mod downgrade;
pub mod inspect;
mod pointers;
mod progress;
pub mod repair;

pub use check::{CheckReport, check};
pub use downgrade::{DowngradePlan, DowngradeReport, RewrittenTable, downgrade, plan_downgrade};
pub use inspect::{FileSummary, InspectItem, inspect};
pub use progress::Progress;
pub use repair::{Loss, RepairReport, RepairTo, Salvaged, repair};
