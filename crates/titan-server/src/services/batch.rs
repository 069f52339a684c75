//! Calls in batches: a stream of numbered calls, answered in any order.
//!
//! Answers that are ready at the same time share a message. A stream takes no further calls while
//! many of its calls run, or many bytes of its answers are not sent. If the client reads nothing
//! for a while, its stream ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prost::Message;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tonic::{Status, Streaming};

use super::executor::Executor;
use super::streams::{Answers, Outlet, answers, drain};
use crate::calls::{Call, Reserved, refused_in_batch};
use crate::proto::tikvpb::batch_commands_request::request::Cmd as Asked;
use crate::proto::tikvpb::batch_commands_response::Response as Answer;
use crate::proto::tikvpb::batch_commands_response::response::Cmd;
use crate::proto::tikvpb::{
    BatchCommandsEmptyRequest, BatchCommandsEmptyResponse, BatchCommandsRequest,
    BatchCommandsResponse,
};

/// The most calls of a stream that are not answered.
const CALLS_AT_ONCE: usize = 1024;
/// The most messages with answers that wait for the transport.
const MESSAGES: usize = 4;
/// The most answers of a message.
const ANSWERS: usize = 128;
/// A message with so many bytes gets no further answer.
const MESSAGE_BYTES: usize = 1 << 20;
/// A stream with so many bytes of answers that are not sent takes no further calls.
const UNSENT_BYTES: usize = 64 << 20;

/// The longest delay that a client can ask for.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// An answer on its way.
struct Ready {
    id: u64,
    answer: Answer,
    bytes: usize,
    _held: Held,
}

/// Permits that a call has until its answer is sent.
struct Held {
    _call: OwnedSemaphorePermit,
    _memory: Option<Reserved>,
}

/// The answers that are not sent.
#[derive(Default)]
struct Unsent {
    bytes: AtomicUsize,
    fell: Notify,
}

impl Unsent {
    async fn wait_for_room(&self) {
        loop {
            let fell = self.fell.notified();
            if self.bytes.load(Ordering::Relaxed) < UNSENT_BYTES {
                return;
            }
            fell.await;
        }
    }
}

/// Answers the calls of a stream.
pub(crate) fn answer_batches(
    executor: Arc<Executor>,
    mut asked: Streaming<BatchCommandsRequest>,
    stopping: watch::Receiver<bool>,
) -> Answers<BatchCommandsResponse> {
    let (out, answers) = answers(&executor, MESSAGES);
    // Bounded by the permits of calls.
    let (ready, to_send) = mpsc::unbounded_channel();
    let unsent = Arc::new(Unsent::default());
    tokio::spawn(send(to_send, out.clone(), Arc::clone(&unsent)));
    tokio::spawn(async move {
        take(executor, &mut asked, stopping.clone(), ready, out, unsent).await;
        drain(asked, stopping).await;
    });
    answers
}

/// Takes calls from the stream until it ends, its answers have no reader, or the node stops.
async fn take(
    executor: Arc<Executor>,
    asked: &mut Streaming<BatchCommandsRequest>,
    mut stopping: watch::Receiver<bool>,
    ready: UnboundedSender<Ready>,
    out: Outlet<BatchCommandsResponse>,
    unsent: Arc<Unsent>,
) {
    let permits = Arc::new(Semaphore::new(CALLS_AT_ONCE));
    loop {
        let message = tokio::select! {
            message = asked.message() => message,
            () = ready.closed() => return,
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
        };
        let BatchCommandsRequest {
            requests,
            request_ids,
        } = match message {
            Ok(Some(message)) => message,
            // The client has left.
            Ok(None) => return,
            // It sent no message, or one that is too large.
            Err(status) => {
                out.send(Err(status)).await;
                return;
            }
        };
        if requests.len() != request_ids.len() {
            let reason = format!(
                "{} calls have {} numbers",
                requests.len(),
                request_ids.len()
            );
            out.send(Err(Status::invalid_argument(reason))).await;
            return;
        }
        for (request, id) in requests.into_iter().zip(request_ids) {
            let permit = tokio::select! {
                () = ready.closed() => return,
                permit = async {
                    unsent.wait_for_room().await;
                    Arc::clone(&permits).acquire_owned().await
                } => permit,
            };
            let Ok(permit) = permit else { return };
            let (executor, ready) = (Arc::clone(&executor), ready.clone());
            let unsent = Arc::clone(&unsent);
            tokio::spawn(async move {
                let (cmd, memory) = match request.cmd {
                    Some(cmd) => tokio::select! {
                        (cmd, memory) = answer(&executor, cmd) => (Some(cmd), memory),
                        () = ready.closed() => return,
                    },
                    // A call that this node does not know.
                    None => (None, None),
                };
                let answer = Answer { cmd };
                let bytes = answer.encoded_len();
                unsent.bytes.fetch_add(bytes, Ordering::Relaxed);
                let _ = ready.send(Ready {
                    id,
                    answer,
                    bytes,
                    _held: Held {
                        _call: permit,
                        _memory: memory,
                    },
                });
            });
        }
    }
}

/// Sends answers, those that are ready together. Ends when the stream takes no further calls and
/// all are answered, or the client reads nothing.
async fn send(
    mut ready: mpsc::UnboundedReceiver<Ready>,
    out: Outlet<BatchCommandsResponse>,
    unsent: Arc<Unsent>,
) {
    let mut next = None;
    loop {
        let first = match next.take() {
            Some(first) => first,
            None => match ready.recv().await {
                Some(first) => first,
                None => return,
            },
        };
        let mut message = BatchCommandsResponse::default();
        let mut permits = Vec::new();
        let mut bytes = 0;
        let mut add = |one: Ready| {
            message.responses.push(one.answer);
            message.request_ids.push(one.id);
            permits.push(one._held);
            bytes += one.bytes;
            bytes
        };
        let mut sum = add(first);
        for _ in 1..ANSWERS {
            let Ok(one) = ready.try_recv() else { break };
            if sum + one.bytes > MESSAGE_BYTES {
                next = Some(one);
                break;
            }
            sum = add(one);
        }
        if !out.send(Ok(message)).await {
            return;
        }
        unsent.bytes.fetch_sub(sum, Ordering::Relaxed);
        unsent.fell.notify_waiters();
    }
}

/// Answers a call.
async fn answer(executor: &Executor, asked: Asked) -> (Cmd, Option<Reserved>) {
    macro_rules! calls {
        ($($name:ident),*) => {
            match asked {
                $(Asked::$name(call) => {
                    let (answer, memory) = run(executor, call).await;
                    (Cmd::$name(answer), Some(memory))
                })*
                Asked::Empty(call) => (Cmd::Empty(empty(call).await), None),
            }
        };
    }
    calls!(
        Get,
        Scan,
        Prewrite,
        Commit,
        Cleanup,
        BatchGet,
        BatchRollback,
        ScanLock,
        ResolveLock,
        Gc,
        DeleteRange,
        RawGet,
        RawBatchGet,
        RawPut,
        RawBatchPut,
        RawDelete,
        RawBatchDelete,
        RawScan,
        RawDeleteRange,
        RawBatchScan,
        Coprocessor,
        PessimisticLock,
        PessimisticRollback,
        CheckTxnStatus,
        TxnHeartBeat,
        CheckSecondaryLocks,
        RawCoprocessor
    )
}

async fn run<C: Call>(executor: &Executor, call: C) -> (C::Answer, Reserved) {
    let (result, memory) = executor.call(call, None).await;
    (result.unwrap_or_else(refused_in_batch::<C>), memory)
}

/// The call by which clients test batches.
async fn empty(call: BatchCommandsEmptyRequest) -> BatchCommandsEmptyResponse {
    tokio::time::sleep(Duration::from_millis(call.delay_time).min(LONGEST_DELAY)).await;
    BatchCommandsEmptyResponse {
        test_id: call.test_id,
    }
}
