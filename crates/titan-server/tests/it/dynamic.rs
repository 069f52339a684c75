//! Calls and answers as protobuf's text format, by the descriptors of `proto/`.

use std::sync::LazyLock;

use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message;
use prost_reflect::text_format::FormatOptions;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use titan_server::internals::Plain;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Request, Status};

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let files = ["tikvpb.proto", "pdpb.proto", "etcd.proto", "health.proto"];
    let set = protox::compile(files, [proto]).unwrap();
    DescriptorPool::from_file_descriptor_set(set).unwrap()
});

/// The method of any service with this name.
pub fn method(name: &str) -> MethodDescriptor {
    let methods = POOL.services().flat_map(|service| {
        let methods: Vec<_> = service.methods().collect();
        methods
    });
    let mut named = methods.filter(|method| method.name() == name);
    named.next().unwrap_or_else(|| panic!("no call {name}"))
}

/// A message of a text.
pub fn request(method: &MethodDescriptor, text: &str) -> Vec<u8> {
    let message = DynamicMessage::parse_text_format(method.input(), text);
    let message = message.unwrap_or_else(|e| panic!("{text}: {e}"));
    message.encode_to_vec()
}

/// The text of an answer, on one line.
pub fn answer(method: &MethodDescriptor, answer: Bytes) -> String {
    let message = DynamicMessage::decode(method.output(), answer).unwrap();
    let text = message.to_text_format_with_options(&FormatOptions::new());
    match text.is_empty() {
        true => "{}".to_owned(),
        false => text,
    }
}

/// Makes a call with the bytes of a request.
pub async fn call(
    channel: &Channel,
    method: &MethodDescriptor,
    request: Vec<u8>,
) -> Result<Bytes, Status> {
    let mut client = Grpc::new(channel.clone()).max_decoding_message_size(usize::MAX);
    client
        .ready()
        .await
        .map_err(|e| Status::unknown(e.to_string()))?;
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    let path = PathAndQuery::try_from(path).unwrap();
    let answer = client.unary(Request::new(request), path, Plain).await?;
    Ok(answer.into_inner())
}
