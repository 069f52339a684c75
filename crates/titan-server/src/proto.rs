//! The messages, servers and clients of the protocol, compiled from `proto/`.
//!
//! The clients are for tests of this crate and for programs that speak to the node without another
//! library.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated: proto/*.proto has the comments"
)]

macro_rules! packages {
    ($($package:ident: $file:literal),*) => {
        $(pub mod $package {
            tonic::include_proto!($file);
        })*
    };
}

packages! {
    metapb: "metapb",
    errorpb: "errorpb",
    deadlock: "deadlock",
    kvrpcpb: "kvrpcpb",
    coprocessor: "coprocessor",
    tikvpb: "tikvpb",
    pdpb: "pdpb",
    etcdserverpb: "etcdserverpb"
}

/// The package `grpc.health.v1`.
pub mod health {
    tonic::include_proto!("grpc.health.v1");
}
