//! Regions: the ranges into which clients cut the keys.
//!
//! One store has all regions, so a region is only a name for a range. But clients meet here what a
//! cluster does to them: regions split, epochs change, and a call with an old epoch is refused.
//!
//! Boundaries are encoded keys of transactions ([`codec::encode_key`](titan_mvcc::codec)), for
//! clients decode them. Calls with raw keys compare these with the same boundaries.
//!
//! | file | owns |
//! |---|---|
//! | `region` | a region and its place among the keys |
//! | `map` | all regions, on disk and in memory; splits |
//! | `checks` | the region of a call: found, current, with the keys |
//! | `key_limit` | the limit of keys |

mod checks;
mod key_limit;
mod map;
mod region;

pub(crate) use checks::{KeyForm, Within};
pub(crate) use key_limit::KeyLimit;
pub(crate) use map::RegionMap;
pub(crate) use region::{Region, STORE_ID};
