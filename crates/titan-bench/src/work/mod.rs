//! The workloads that engines are compared with; `titan-workload` defines what they consist of.
//!
//! | module | has |
//! |---|---|
//! | [`profile`] | the amounts of `quick`, `standard` and `long` |
//! | [`catalog`] | the workloads |

pub(crate) mod catalog;
pub(crate) mod profile;
