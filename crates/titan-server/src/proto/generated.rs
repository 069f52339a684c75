//! The packages of the protocol, as the compiler of `proto/` writes them.

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
