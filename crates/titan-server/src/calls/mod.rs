//! The calls of the key-value service.
//!
//! Each call checks its region, runs on a thread that may block, and answers with the values that
//! the protocol has for its failures. A call may be repeated: its client does not know whether a
//! lost answer was a success.
//!
//! | file | owns |
//! |---|---|
//! | `failure` | the failure of a call, before it becomes part of an answer |
//! | `answers` | the places of errors in answers |
//! | `reserved` | the memory that answers take until they are sent |
//! | `call` | the trait of calls, and the means of a running call |
//! | `key_errors` | errors of the store as errors of keys |
//! | `keys` | the keys of a scan's answer |
//! | `reads` | points, batches and scans at a timestamp |
//! | `prewrites` | prewrites, in one phase or two, and commits |
//! | `pessimistic` | pessimistic locks and their release |
//! | `fates` | ending transactions, and asking how they ended |
//! | `ranges` | destroying ranges, garbage, splits |
//! | `raw` | raw keys |

mod answers;
mod call;
mod failure;
mod fates;
mod key_errors;
mod keys;
mod pessimistic;
mod prewrites;
mod ranges;
mod raw;
mod reads;
mod reserved;

pub(crate) use answers::{Answered, refused, refused_in_batch};
pub(crate) use call::{Abandoned, Call, Work};
pub(crate) use failure::Failure;
pub(crate) use reserved::Reserved;
