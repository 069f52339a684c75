//! Compiles the protocol: `proto/*.proto` become modules of messages, servers and clients.

const FILES: [&str; 5] = [
    "proto/pdpb.proto",
    "proto/tikvpb.proto",
    "proto/etcd.proto",
    "proto/health.proto",
    "proto/deadlock.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let set = protox::compile(FILES, ["proto"])?;
    tonic_prost_build::configure()
        // Keys and values are slices of the received message.
        .bytes(".")
        // Its pairs are encoded as they are found.
        .extern_path(".kvrpcpb.ScanResponse", "crate::proto::scan::ScanResponse")
        // A few bytes of a request become one of these: they must not be large.
        .boxed(".kvrpcpb.KvPair.error")
        .boxed(".tikvpb.BatchCommandsRequest.Request.cmd")
        .boxed(".tikvpb.BatchCommandsResponse.Response.cmd")
        .compile_fds(set)?;
    Ok(())
}
