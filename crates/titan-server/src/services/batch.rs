//! Calls in batches: a stream of numbered calls, answered in any order.
//!
//! Answers that are ready at the same time share a message. A stream takes no further calls while
//! many of its calls run, or many bytes of its answers are not sent. The calls of a message count
//! from its decoding on, each by itself: one without room is refused, and its neighbours are not.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use prost::Message;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tonic::{Status, Streaming};

use super::executor::Executor;
use super::lanes::Share;
use super::streams::{Answers, Outlet, answers};
use crate::calls::{Answered, Call, Failure, Reserved, refused_in_batch};
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

/// The answers of a stream.
pub(crate) type BatchAnswers = Answers<BatchCommandsResponse, Vec<Held>>;

/// An answer on its way.
struct Ready {
    id: u64,
    answer: Answer,
    held: Held,
}

/// The share that a call has of the limits until its answer is sent.
pub(crate) struct Held {
    _call: OwnedSemaphorePermit,
    _memory: Option<Reserved>,
    /// The bytes of the answer.
    bytes: usize,
    unsent: Arc<Unsent>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.unsent.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.unsent.fell.notify_waiters();
    }
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
    share: Share,
    asked: Streaming<BatchCommandsRequest>,
    stopping: watch::Receiver<bool>,
) -> BatchAnswers {
    let (out, answers) = answers(MESSAGES);
    // Bounded by the permits of calls.
    let (ready, to_send) = mpsc::unbounded_channel();
    tokio::spawn(send(to_send, out.clone()));
    tokio::spawn(take(executor, share, asked, stopping, ready, out));
    answers
}

/// Takes calls from the stream until it ends, its answers have no reader, or the node stops.
async fn take(
    executor: Arc<Executor>,
    share: Share,
    mut asked: Streaming<BatchCommandsRequest>,
    mut stopping: watch::Receiver<bool>,
    ready: UnboundedSender<Ready>,
    out: Outlet<BatchCommandsResponse, Vec<Held>>,
) {
    let permits = Arc::new(Semaphore::new(CALLS_AT_ONCE));
    let unsent = Arc::new(Unsent::default());
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
                out.send(Err(status), Vec::new()).await;
                return;
            }
        };
        if requests.len() != request_ids.len() {
            let reason = format!(
                "{} calls have {} numbers",
                requests.len(),
                request_ids.len()
            );
            out.send(Err(Status::invalid_argument(reason)), Vec::new())
                .await;
            return;
        }
        let admitted = requests.iter().map(|request| {
            let bytes = request.cmd.as_ref().map_or(0, memory);
            executor.admit(bytes)
        });
        let admitted: Vec<_> = admitted.collect();
        let calls = requests.into_iter().zip(request_ids).zip(admitted);
        for ((request, id), admitted) in calls {
            let permit = tokio::select! {
                () = ready.closed() => return,
                _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
                permit = async {
                    unsent.wait_for_room().await;
                    Arc::clone(&permits).acquire_owned().await
                } => permit,
            };
            let Ok(permit) = permit else { return };
            let (executor, ready) = (Arc::clone(&executor), ready.clone());
            let share = share.clone();
            let unsent = Arc::clone(&unsent);
            let is_all_sent = unsent.bytes.load(Ordering::Relaxed) == 0;
            let mut call = Box::pin(async move {
                let (cmd, memory) = match request.cmd {
                    Some(cmd) => tokio::select! {
                        (cmd, memory) = answer(&executor, &share, cmd, admitted) => (Some(cmd), memory),
                        () = ready.closed() => return,
                    },
                    // A call that this node does not know.
                    None => (None, None),
                };
                let answer = Answer { cmd };
                let bytes = answer.encoded_len();
                unsent.bytes.fetch_add(bytes, Ordering::Relaxed);
                let held = Held {
                    _call: permit,
                    _memory: memory,
                    bytes,
                    unsent,
                };
                let _ = ready.send(Ready { id, answer, held });
            });
            // A short call usually ends here. One that is slow must not hold back the answers of
            // others, whose task may run on no other thread.
            let has_ended = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready()));
            if !is_all_sent || !has_ended.await {
                tokio::spawn(call);
            }
        }
    }
}

/// Sends answers, those that are ready together. Ends when the stream takes no further calls and
/// all are answered, or nobody reads them.
async fn send(
    mut ready: mpsc::UnboundedReceiver<Ready>,
    out: Outlet<BatchCommandsResponse, Vec<Held>>,
) {
    let mut next = None;
    loop {
        let first = match next.take() {
            Some(first) => Some(first),
            None => tokio::select! {
                first = ready.recv() => first,
                () = out.closed() => return,
            },
        };
        let Some(first) = first else { return };
        let mut message = BatchCommandsResponse::default();
        let (mut held, mut bytes) = (Vec::new(), 0);
        let mut add = |one: Ready| {
            bytes += one.held.bytes;
            message.responses.push(one.answer);
            message.request_ids.push(one.id);
            held.push(one.held);
            bytes
        };
        let mut sum = add(first);
        for _ in 1..ANSWERS {
            let Ok(one) = ready.try_recv() else { break };
            if sum + one.held.bytes > MESSAGE_BYTES {
                next = Some(one);
                break;
            }
            sum = add(one);
        }
        if !out.send(Ok(message), held).await {
            return;
        }
    }
}

macro_rules! calls {
    ($($name:ident),*) => {
        /// The bytes that a call takes.
        fn memory(asked: &Asked) -> usize {
            match asked {
                $(Asked::$name(call) => call.memory(),)*
                Asked::Empty(call) => size_of_val(&**call),
            }
        }

        /// Answers a call, whose memory was `admitted` or refused.
        async fn answer(
            executor: &Executor,
            share: &Share,
            asked: Asked,
            admitted: Result<OwnedSemaphorePermit, Failure>,
        ) -> (Cmd, Option<Reserved>) {
            match asked {
                $(Asked::$name(call) => {
                    let (answer, memory) = run(executor, share, *call, admitted).await;
                    (Cmd::$name(Box::new(answer)), Some(memory))
                })*
                Asked::Empty(call) => {
                    let answer = empty(executor, *call, admitted).await;
                    (Cmd::Empty(Box::new(answer)), None)
                }
            }
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
);

async fn run<C: Call>(
    executor: &Executor,
    share: &Share,
    call: C,
    admitted: Result<OwnedSemaphorePermit, Failure>,
) -> (C::Answer, Reserved) {
    let refuse = |failure| Ok::<_, Infallible>(refused_in_batch::<C>(failure));
    let Ok(answered) = executor.answer(call, share, admitted, None, refuse).await;
    answered
}

/// The call by which clients test batches. It sleeps, unless too many do, and takes no memory of
/// other calls meanwhile.
async fn empty(
    executor: &Executor,
    call: BatchCommandsEmptyRequest,
    admitted: Result<OwnedSemaphorePermit, Failure>,
) -> BatchCommandsEmptyResponse {
    let is_admitted = admitted.is_ok();
    drop(admitted);
    let delay = Duration::from_millis(call.delay_time).min(LONGEST_DELAY);
    if is_admitted && let Some(_place) = executor.sleeper() {
        tokio::time::sleep(delay).await;
    }
    BatchCommandsEmptyResponse {
        test_id: call.test_id,
    }
}
