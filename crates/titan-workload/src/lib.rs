//! Workloads of benchmarks, and the threads that run them: what `titan bench` and `titan-bench`
//! share.
//!
//! | module | has |
//! |---|---|
//! | [`step`] | workloads, steps and operations, as data |
//! | [`keys`] | the bytes of keys, and the choice of the next one |
//! | [`values`] | sizes and bytes of values |
//! | [`live`] | the existing keys |
//! | [`target`] | the interface of a database that a step runs against |
//! | [`titan`] | Titan behind that interface |
//! | [`versions`] | a store of versions behind it |
//! | [`shared`] | what the threads of a step share |
//! | `thread` | a thread of a step: draws operations, performs them, measures their times |
//! | [`tally`] | counts and latencies |
//! | [`run`] | runs the threads of a step, and adds up their results |
//!
//! The loop of a thread allocates nothing for an operation; the database under it may.

pub mod keys;
pub mod live;
pub mod run;
pub mod shared;
pub mod step;
pub mod tally;
pub mod target;
mod thread;
pub mod titan;
pub mod values;
pub mod versions;
