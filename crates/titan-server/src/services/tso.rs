//! Streams of timestamps, answered in order.

use std::sync::Arc;
use std::time::Duration;

use titan_mvcc::Timestamp;
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::watch;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::executor::Executor;
use super::headers::{check_cluster, header};
use crate::node::Shared;
use crate::proto::pdpb::{self, TsoRequest, TsoResponse};

/// Answers that wait for the transport.
const ANSWERS: usize = 16;
/// The most timestamps of a request: those of a millisecond.
const MOST: u32 = 1 << 18;

/// The answers of a stream.
pub(crate) type Runs = ReceiverStream<Result<TsoResponse, Status>>;

/// Answers the requests of a stream.
pub(crate) fn answer_runs(
    executor: Arc<Executor>,
    asked: Streaming<TsoRequest>,
    stopping: watch::Receiver<bool>,
) -> Runs {
    let (out, answers) = mpsc::channel(ANSWERS);
    tokio::spawn(take(executor, asked, stopping, out));
    ReceiverStream::new(answers)
}

async fn take(
    executor: Arc<Executor>,
    mut asked: Streaming<TsoRequest>,
    mut stopping: watch::Receiver<bool>,
    out: Sender<Result<TsoResponse, Status>>,
) {
    let unread: Duration = executor.shared().limits.unread;
    loop {
        let request = tokio::select! {
            request = asked.message() => request,
            () = out.closed() => return,
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
        };
        let request = match request {
            Ok(Some(request)) => request,
            // The client has left.
            Ok(None) => return,
            // It sent no message.
            Err(status) => {
                let _ = out.send(Err(status)).await;
                return;
            }
        };
        let answer = executor.timestamps(move |shared| run(shared, &request));
        let answer = answer.await;
        let is_last = answer.is_err();
        if out.send_timeout(answer, unread).await.is_err() || is_last {
            return;
        }
    }
}

/// Takes a run of timestamps. The answer has the last one.
fn run(shared: &Shared, request: &TsoRequest) -> Result<TsoResponse, Status> {
    check_cluster(shared, request.header.as_ref())?;
    let count = request.count;
    if count == 0 || count >= MOST {
        let reason = format!("{count} timestamps at once: at least 1, less than {MOST}");
        return Err(Status::invalid_argument(reason));
    }
    let first = shared.store().oracle().next_run(count.into());
    let first = first.map_err(|error| Status::unavailable(error.to_string()))?;
    Ok(TsoResponse {
        header: header(shared),
        count,
        timestamp: Some(message(Timestamp(first.0 + u64::from(count) - 1))),
    })
}

/// A timestamp in the two parts of the protocol.
pub(super) fn message(timestamp: Timestamp) -> pdpb::Timestamp {
    let physical = timestamp.unix_time().as_millis();
    pdpb::Timestamp {
        physical: i64::try_from(physical).unwrap_or(i64::MAX),
        logical: timestamp.counter() as i64,
        suffix_bits: 0,
    }
}
