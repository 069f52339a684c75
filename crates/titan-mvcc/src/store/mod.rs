//! The store as programs see it.
//!
//! | file | owns |
//! |---|---|
//! | `options` | the options of an opening |
//! | `space`, `check` | the report on space; the check of all entries |
//! | `handle` | the handle of an open store |
//! | `open`, `read_only` | opening a store to write it, or to read it only |
//! | `retry` | transactions that run again after a conflict |

mod check;
mod handle;
mod open;
mod options;
mod read_only;
mod retry;
mod space;

pub use check::{CheckProblem, CheckReport};
pub use handle::Store;
pub use options::StoreOptions;
pub use space::{HoldSpace, StoreSpaceReport, VersionSpace};
