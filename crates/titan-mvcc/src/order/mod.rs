//! The order of commits, and the safe point, which follows it.
//!
//! | file | owns |
//! |---|---|
//! | `wakeups` | the wake-ups of the sweeper |
//! | `commits_in_flight` | commits with a timestamp that have not ended; the visible timestamp |
//! | `commit_order` | timestamps of commits, and the moment at which each is acknowledged |
//! | `commit_hook` | the hook by which the engine's leader ends published commits |
//! | `safe_point` | the oldest timestamp that can be read, and holds |

mod commit_hook;
mod commit_order;
mod commits_in_flight;
mod safe_point;
mod wakeups;

pub(crate) use commit_hook::StoreHook;
pub(crate) use commit_order::{CommitOrder, InFlight};
pub(crate) use safe_point::SafePoint;
pub use safe_point::{Hold, HoldInfo};
pub(crate) use wakeups::Wakeups;
