//! The sources of timestamps.
//!
//! | file | owns |
//! |---|---|
//! | `timestamp_oracle` | the interface of oracles |
//! | `clock_jump` | the comparison of an opening's clock with the last one |
//! | `lease` | the bound on disk of all timestamps that were handed out |
//! | `local` | the oracle of a store that one process uses |
//! | `given` | an oracle of the program, whose timestamps are leased too |

mod clock_jump;
mod given;
mod lease;
mod local;
mod timestamp_oracle;

pub(crate) use clock_jump::ClockJump;
pub(crate) use given::GivenOracle;
pub(crate) use local::LocalOracle;
pub use timestamp_oracle::TimestampOracle;
