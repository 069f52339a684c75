//! Searches in the family of versions, without regard to locks of transactions.
//!
//! | file | owns |
//! |---|---|
//! | `direction` | the direction of a scan |
//! | `stats` | the cost of reads |
//! | `range_source` | the interface of a cache that answers reads before the engine |
//! | `value` | the value of a key at a timestamp |
//! | `history` | the newest write of a key, its last change, the outcome of a transaction |

mod direction;
mod history;
mod range_source;
mod stats;
mod value;

pub use direction::Direction;
pub(crate) use history::{
    Outcome, last_change, newest_change, newest_version, newest_write, outcome,
};
pub use range_source::{Found, Part, PartRequest, RangeSource, SourceRow};
pub use stats::ReadStats;
pub(crate) use stats::ReadTotals;
pub(crate) use value::{Below, MAX_STEPS, value_at, value_at_encoded, value_below_lock};
