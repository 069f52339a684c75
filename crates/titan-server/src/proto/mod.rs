//! The messages, servers and clients of the protocol, compiled from `proto/`.
//!
//! The clients are for tests of this crate and for programs that speak to the node without another
//! library. The answer of a scan has a [form of its own](scan).

mod generated;
pub mod scan;

pub use generated::{coprocessor, deadlock, errorpb, etcdserverpb, health, metapb, pdpb, tikvpb};

/// The package `kvrpcpb`.
pub mod kvrpcpb {
    pub use super::generated::kvrpcpb::*;
    pub use super::scan::ScanResponse;
}
