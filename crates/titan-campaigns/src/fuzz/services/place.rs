//! A node on a simulated disk, and the checks after its calls.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use titan::DbOptions;
use titan_server::internals::{Contents, LocalNode, PANICKED, Plain};
use titan_server::proto::kvrpcpb::Context;
use titan_server::proto::metapb::RegionEpoch;
use titan_server::proto::pdpb::RequestHeader;
use titan_server::proto::tikvpb::BatchCommandsRequest;
use titan_server::proto::tikvpb::batch_commands_request::request::Cmd;
use titan_server::{NodeOptions, StorageOptions};
use titan_testkit::clock::SetClock;
use titan_testkit::sim::{Loss, SimVfs};
use tokio::runtime::Runtime;
use tonic::client::Grpc;
use tonic::{Code, Request, Status};

use super::methods::{First, Method, STREAMS};

const DIR: &str = "/node";
/// The longest time of a call by itself.
const DEADLINE: Duration = Duration::from_millis(200);
/// The tag of the first field, if that is a message.
const FIRST_TAG: u8 = 0x0a;

static RUNTIME: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(1).enable_all().build().ok()
});

/// The time of day, in seconds since 1970. It stands still, so that timestamps depend on nothing
/// but the calls.
pub(super) const NOW: u64 = 1_800_000_000;

/// A node on a simulated disk.
pub(super) struct Place {
    vfs: SimVfs,
    node: LocalNode,
}

/// The region and peer of a new node.
pub(super) fn context() -> Context {
    Context {
        region_id: 2,
        region_epoch: Some(RegionEpoch {
            conf_ver: 1,
            version: 1,
        }),
        ..Context::default()
    }
}

/// Regions split by hand only: nothing happens between the calls.
fn options(vfs: &SimVfs) -> NodeOptions {
    NodeOptions {
        storage: StorageOptions {
            retention: None,
            db: DbOptions {
                vfs: Arc::new(vfs.clone()),
                clock: Arc::new(SetClock::at(NOW)),
                max_background_jobs: 1,
                ..DbOptions::default()
            },
            ..StorageOptions::default()
        },
        ..NodeOptions::new(([127, 0, 0, 1], 0).into())
    }
}

impl Place {
    pub(super) fn new() -> Self {
        let vfs = SimVfs::new();
        let node = open(&vfs);
        Place { vfs, node }
    }

    /// Makes a call. Panics if the call did.
    pub(super) fn call(&self, method: &Method, request: &[u8], is_addressed: bool) {
        let mut message = request.to_vec();
        if is_addressed {
            // A field that comes again replaces its earlier value.
            let first = match method.first {
                First::Context => context().encode_to_vec(),
                First::Header => RequestHeader {
                    cluster_id: self.node.cluster_id(),
                    sender_id: 0,
                }
                .encode_to_vec(),
                First::Other => Vec::new(),
            };
            if !first.is_empty() {
                message.extend([FIRST_TAG, first.len() as u8]);
                message.extend(first);
            }
        }
        if method.path == STREAMS[0].path {
            message = without_waits(message);
        }
        let Some(runtime) = &*RUNTIME else { return };
        let answered = runtime.block_on(self.answer(method, message));
        if let Err(status) = answered {
            let is_panic = matches!(status.code(), Code::Unknown | Code::Unavailable);
            let is_pace = status.message().contains("ahead of the clock");
            assert!(!is_panic || is_pace, "{}: {status}", method.path);
        }
    }

    async fn answer(&self, method: &Method, message: Vec<u8>) -> Result<(), Status> {
        let mut client = Grpc::new(self.node.routes()).max_decoding_message_size(usize::MAX);
        let path = PathAndQuery::from_static(method.path);
        let Ok(()) = client.ready().await;
        if STREAMS.iter().any(|stream| stream.path == method.path) {
            let asked = Request::new(tokio_stream::once(message));
            let answers = client.streaming(asked, path, Plain).await?;
            let mut answers = answers.into_inner();
            while let Some(answer) = answers.message().await? {
                // A status would end all calls of a batch.
                let mut texts = answer.windows(PANICKED.len());
                if texts.any(|text| text == PANICKED.as_bytes()) {
                    return Err(Status::unknown(PANICKED));
                }
            }
            return Ok(());
        }
        let mut request = Request::new(message);
        request.set_timeout(DEADLINE);
        client.unary(request, path, Plain).await.map(drop)
    }

    /// Panics unless the contents are sound, and the same after a crash of the process and of the
    /// machine.
    pub(super) fn check(self) {
        let before = contents(&self.node);
        let journal = self.vfs.journal();
        for loss in [Loss::None, Loss::All] {
            let after = open(&journal.crash_at(journal.len(), &loss));
            assert_eq!(contents(&after), before, "{loss:?}");
            close(after);
        }
        close(self.node);
    }
}

/// Batches wait as long as their requests ask. Without waits, a call that takes long hangs.
fn without_waits(message: Vec<u8>) -> Vec<u8> {
    let Ok(mut batch) = BatchCommandsRequest::decode(&*message) else {
        return message;
    };
    for request in &mut batch.requests {
        match &mut request.cmd {
            Some(Cmd::Empty(call)) => call.delay_time = 0,
            Some(Cmd::PessimisticLock(call)) => call.wait_timeout = -1,
            _ => {}
        }
    }
    batch.encode_to_vec()
}

#[expect(clippy::panic, reason = "a fuzz target fails by panicking")]
fn open(vfs: &SimVfs) -> LocalNode {
    LocalNode::open(DIR, &options(vfs)).unwrap_or_else(|e| panic!("opening: {e}"))
}

#[expect(clippy::panic, reason = "a fuzz target fails by panicking")]
fn contents(node: &LocalNode) -> Contents {
    let contents = node.contents().unwrap_or_else(|e| panic!("reading: {e}"));
    assert_eq!(contents.versions.problems, []);
    contents
}

#[expect(clippy::panic, reason = "a fuzz target fails by panicking")]
fn close(node: LocalNode) {
    node.close().unwrap_or_else(|e| panic!("closing: {e}"));
}
