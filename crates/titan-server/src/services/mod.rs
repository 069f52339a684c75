//! The services, as the transport calls them.
//!
//! | file | owns |
//! |---|---|
//! | `executor` | running calls within limits, on threads that may block unless they are short |
//! | `lanes` | how many calls of each kind run at the same time |
//! | `short_calls` | the choice of the thread of a short call |
//! | `arriving` | the memory that requests take while they arrive |
//! | `leaving` | the memory that answers take while they leave |
//! | `deadlines` | the moment at which a client gives up |
//! | `tikv` | the key-value service: calls by themselves |
//! | `streams` | the answers of streams |
//! | `batch` | calls in batches |
//! | `headers` | the clusters and the member of requests and answers |
//! | `pd` | the placement driver |
//! | `etcd` | the keys that clients save |
//! | `health` | the health check |
//! | `routes` | all services, for a transport |

mod arriving;
mod batch;
mod deadlines;
mod etcd;
mod executor;
mod headers;
mod health;
mod lanes;
mod leaving;
mod pd;
mod routes;
mod short_calls;
mod streams;
mod tikv;

pub(crate) use arriving::Arriving;
pub use executor::PANICKED;
pub(crate) use executor::{Executor, network_threads};
pub(crate) use lanes::{Lanes, Share};
pub(crate) use leaving::watched;
pub(crate) use routes::routes;
