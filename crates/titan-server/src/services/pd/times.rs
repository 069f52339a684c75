//! Timestamps. Those of a stream are answered in order.

use std::sync::Arc;

use titan_mvcc::Timestamp;
use tokio::sync::watch;
use tonic::{Status, Streaming};

use super::PdService;
use crate::node::Shared;
use crate::proto::pdpb::{self, GetMinTsRequest, GetMinTsResponse, TsoRequest, TsoResponse};
use crate::services::executor::Executor;
use crate::services::headers::{check_cluster, header};
use crate::services::streams::{Answers, Outlet, answers};

/// Answers that wait for the transport.
const ANSWERS: usize = 16;
/// The most timestamps of a request: those of a millisecond.
const MOST: u32 = 1 << 18;

impl PdService {
    /// Answers the requests of a stream.
    pub(super) fn timestamps(&self, asked: Streaming<TsoRequest>) -> Answers<TsoResponse> {
        let (executor, stopping) = (Arc::clone(&self.executor), self.stopping.clone());
        let (out, answers) = answers(ANSWERS);
        tokio::spawn(take(executor, asked, stopping, out));
        answers
    }

    pub(super) async fn get_min_ts(&self, _: GetMinTsRequest) -> Result<GetMinTsResponse, Status> {
        let next = self.executor.timestamps(|shared| {
            let next = shared.store().oracle().next();
            next.map_err(|error| Status::unavailable(error.to_string()))
        });
        Ok(GetMinTsResponse {
            timestamp: Some(message(next.await?)),
            header: self.header(),
        })
    }
}

async fn take(
    executor: Arc<Executor>,
    mut asked: Streaming<TsoRequest>,
    mut stopping: watch::Receiver<bool>,
    out: Outlet<TsoResponse>,
) {
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
                out.send(Err(status), ()).await;
                return;
            }
        };
        let answer = executor.timestamps(move |shared| run(shared, &request));
        let answer = answer.await;
        let is_last = answer.is_err();
        if !out.send(answer, ()).await || is_last {
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
fn message(timestamp: Timestamp) -> pdpb::Timestamp {
    let physical = timestamp.unix_time().as_millis();
    pdpb::Timestamp {
        physical: i64::try_from(physical).unwrap_or(i64::MAX),
        logical: timestamp.counter() as i64,
        suffix_bits: 0,
    }
}
