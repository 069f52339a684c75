//! The messages, servers and clients of the protocol, compiled from `proto/`.
//!
//! The clients are for tests of this crate and for programs that speak to the node without another
//! library. The answer of a scan has a [form of its own](scan).

pub mod scan;

macro_rules! packages {
    ($($package:ident: $file:literal $(with $module:ident::$message:ident)?),*) => {
        $(#[allow(
            missing_docs,
            unreachable_pub,
            clippy::all,
            clippy::pedantic,
            reason = "generated: proto/*.proto has the comments"
        )]
        pub mod $package {
            $(pub use super::$module::$message;)?
            tonic::include_proto!($file);
        })*
    };
}

packages! {
    metapb: "metapb",
    errorpb: "errorpb",
    deadlock: "deadlock",
    kvrpcpb: "kvrpcpb" with scan::ScanResponse,
    coprocessor: "coprocessor",
    tikvpb: "tikvpb",
    pdpb: "pdpb",
    etcdserverpb: "etcdserverpb"
}

/// The package `grpc.health.v1`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated: proto/health.proto has the comments"
)]
pub mod health {
    tonic::include_proto!("grpc.health.v1");
}
