//! Old versions: the rule for those that may be dropped, and what tables record about them.
//!
//! | file | owns |
//! |---|---|
//! | `filter` | the compaction filter that drops old versions |
//! | `properties` | the record about the versions of a table |
//! | `collector` | counting versions while a table is written |
//! | `tables` | ranges that are worth a compaction |

mod collector;
mod filter;
mod properties;
mod tables;

pub(crate) use collector::CollectorFactory;
pub(crate) use filter::{FilterFactory, FilterFamily};
pub(crate) use tables::{KeyRange, Tables};
