//! The parts of an open node that all its calls share.
//!
//! | file | owns |
//! |---|---|
//! | `versions` | the store of versions, with a range cache or without |
//! | `room` | the room that is kept on the device |
//! | `shared` | the parts, opened and closed in order |
//! | `safe_ts` | the timestamp up to which nothing changes any more |
//! | `keeper` | the thread that splits large regions, ends expired safe points, resumes writes |
//! | `boundaries` | keys at which a large region is split |

mod boundaries;
mod keeper;
mod room;
mod safe_ts;
mod shared;
mod versions;

pub(crate) use keeper::Keeper;
pub(crate) use safe_ts::safe_ts;
pub(crate) use shared::Shared;
