//! The services, as the transport calls them.
//!
//! | file | owns |
//! |---|---|
//! | `executor` | running calls on threads that may block, within limits |
//! | `arriving` | the memory that requests take while they arrive |
//! | `deadlines` | the moment at which a client gives up |
//! | `tikv` | the key-value service: calls by themselves |
//! | `streams` | the answers of streams, and the ends of streams |
//! | `batch` | calls in batches |
//! | `headers` | the clusters of requests and answers |
//! | `tso` | streams of timestamps |
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
mod pd;
mod routes;
mod streams;
mod tikv;
mod tso;

pub(crate) use arriving::Arriving;
pub(crate) use executor::Executor;
pub(crate) use routes::routes;
