//! The records of a node besides data: its identity, its numbers, safe points, and the keys that
//! clients save.
//!
//! | file | owns |
//! |---|---|
//! | `directory` | the directory of a node and its databases |
//! | `numbers` | numbers in records |
//! | `ids` | numbers that are handed out once |
//! | `safe_points` | the safe points of clients' garbage collection |
//! | `saved_keys` | the keys that clients of etcd's service save |

mod directory;
mod ids;
mod numbers;
mod safe_points;
mod saved_keys;

pub(crate) use directory::Directory;
pub(crate) use ids::Ids;
pub(crate) use safe_points::{SafePoints, advance_store, held_at};
pub(crate) use saved_keys::{SavedKey, SavedKeys};
