//! The connection to a cluster: threads of the network, and repeated calls.
//!
//! A call that fails for a reason that passes is repeated, after waits that grow and are random in
//! part. It ends at its [`Deadline`], which a whole operation may share.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use rustix::io::Errno;
use tikv_client::{
    Backoff, CheckLevel, Config, Error as ClientError, RetryOptions, Timestamp, TransactionClient,
    TransactionOptions,
};
use titan::Process;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use super::failures::{passes, text, translated};
use crate::error::{Error, Result};
use crate::kv::TikvUrl;

/// The most bytes of an answer.
const LARGEST_ANSWER: usize = 72 << 20;
/// The time after which a request is sent again.
const REQUEST: Duration = Duration::from_secs(5);
/// The time after which a call is taken to wait at a dead connection.
const ATTEMPT: Duration = Duration::from_secs(10);
/// The first and the longest wait between two attempts.
const WAITS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(1));

/// The end of an operation that the cluster does not answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    fn rest(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// A connection to a cluster.
pub(super) struct Cluster {
    url: TikvUrl,
    client: RwLock<TransactionClient>,
    runtime: Arc<Runtime>,
    opened_by: Process,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.is_usable() {
            // A forked child would wait for threads that it does not have.
            std::mem::forget(Arc::clone(&self.runtime));
        }
    }
}

impl Cluster {
    /// Connects to the placement drivers of a cluster.
    ///
    /// # Errors
    /// `ETIMEDOUT` if none answers; `EINVAL` if a file of TLS cannot be read.
    pub(super) fn connect(url: &TikvUrl) -> Result<Cluster> {
        if let Some(tls) = &url.tls {
            for file in [&tls.ca, &tls.cert, &tls.key] {
                std::fs::File::open(file).map_err(|e| {
                    let reason = crate::error::reason(&e);
                    let what = format!("cannot read {}: {reason}", file.display());
                    Error::new(Errno::INVAL, what)
                })?;
            }
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("tifs-tikv")
            .enable_all()
            .build()
            .map_err(|e| Error::new(Errno::AGAIN, format!("threads of the network: {e}")))?;
        let connected = runtime.block_on(async {
            timeout(url.timeout, client(url))
                .await
                .map_err(|_| "no answer".to_owned())
                .and_then(|connected| connected.map_err(|e| text(&e)))
        });
        let client = connected.map_err(|reason| {
            let what = format!(
                "cannot reach the placement driver at {} ({reason}): check that the cluster runs, and \
                 whether it wants TLS (ca, cert, key)",
                url.endpoints.join(",")
            );
            Error::new(Errno::TIMEDOUT, what)
        })?;
        Ok(Cluster {
            url: url.clone(),
            client: RwLock::new(client),
            runtime: Arc::new(runtime),
            opened_by: Process::current(),
        })
    }

    /// Whether this process has the threads of the connection: a forked child has not.
    pub(super) fn is_usable(&self) -> bool {
        self.opened_by.is_current()
    }

    /// The deadline of an operation that begins now.
    pub(super) fn deadline(&self) -> Deadline {
        Deadline(Instant::now() + self.url.timeout)
    }

    /// The name of the cluster for messages.
    pub(super) fn place(&self) -> String {
        self.url.endpoints.join(",")
    }

    /// One attempt, which may take so long.
    ///
    /// # Errors
    /// `ETIMEDOUT`; that of the attempt.
    pub(super) fn once<T>(
        &self,
        at_most: Duration,
        attempt: impl AsyncFn(TransactionClient) -> Result<T, ClientError>,
    ) -> Result<T> {
        let client = self.client.read().clone();
        match self.within(at_most, attempt(client)) {
            Some(done) => done.map_err(|error| translated(&error, &self.place())),
            None => Err(self.out_of_reach("no answer")),
        }
    }

    /// Runs attempts until one succeeds or fails for good.
    ///
    /// # Errors
    /// `ETIMEDOUT` at the deadline; that of the last attempt; `EIO` in a forked child, which has
    /// none of the threads.
    pub(super) fn call<T>(
        &self,
        deadline: Deadline,
        attempt: impl AsyncFn(TransactionClient) -> Result<T, ClientError>,
    ) -> Result<T> {
        if !self.is_usable() {
            let what = "a forked child cannot use the connection of its parent to the cluster";
            return Err(Error::new(Errno::IO, what));
        }
        let mut wait = WAITS.0;
        loop {
            // Bound before: the lock must not be held meanwhile.
            let client = self.client.read().clone();
            let at_most = deadline.rest().min(ATTEMPT);
            let done = self.within(at_most, attempt(client));
            let failure = match done {
                Some(Ok(value)) => return Ok(value),
                Some(Err(error)) if !passes(&error) => {
                    return Err(translated(&error, &self.place()));
                }
                Some(Err(error)) => text(&error),
                None => {
                    self.reconnect(deadline);
                    "no answer".to_owned()
                }
            };
            if deadline.rest() <= wait {
                return Err(self.out_of_reach(&failure));
            }
            self.pause(wait);
            wait = (2 * wait).min(WAITS.1);
        }
    }

    /// The result of a future, if it is there in time.
    pub(super) fn within<T>(
        &self,
        at_most: Duration,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        self.runtime
            .block_on(async { timeout(at_most, future).await.ok() })
    }

    /// The result of a future, if it is there at the deadline.
    pub(super) fn until<T>(
        &self,
        deadline: Deadline,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        self.within(deadline.rest(), future)
    }

    /// Waits before an attempt at a transaction that others may have disturbed.
    ///
    /// # Errors
    /// `ETIMEDOUT` at the deadline.
    pub(super) fn wait_before_repetition(&self, deadline: Deadline) -> Result<()> {
        if deadline.rest().is_zero() {
            return Err(self.out_of_reach("others write the same keys"));
        }
        self.pause(10 * WAITS.0);
        Ok(())
    }

    /// Waits about so long. Others that failed at the same time wait for another time.
    fn pause(&self, wait: Duration) {
        let wait = wait.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.runtime.block_on(async { sleep(wait).await });
    }

    /// A new connection, if the placement drivers answer: nothing tells when the other side of the
    /// present one is gone.
    fn reconnect(&self, deadline: Deadline) {
        if let Some(Ok(new)) = self.until(deadline, client(&self.url)) {
            *self.client.write() = new;
        }
    }

    /// The error of an operation that the cluster did not answer.
    pub(super) fn out_of_reach(&self, reason: &str) -> Error {
        let what = format!(
            "the cluster at {} has not answered for {} ({reason}): check that it runs and can be reached; \
             the volume goes on when it answers",
            self.place(),
            humantime::format_duration(self.url.timeout)
        );
        Error::new(Errno::TIMEDOUT, what)
    }

    /// A timestamp after all that were given before.
    pub(super) fn timestamp(&self, deadline: Deadline) -> Result<Timestamp> {
        self.call(deadline, async |client: TransactionClient| {
            client.current_timestamp().await
        })
    }
}

async fn client(url: &TikvUrl) -> Result<TransactionClient, ClientError> {
    let mut config = Config::default()
        .with_timeout(REQUEST)
        .with_grpc_max_decoding_message_size(LARGEST_ANSWER);
    if let Some(tls) = &url.tls {
        config = config.with_security(&tls.ca, &tls.cert, &tls.key);
    }
    TransactionClient::new_with_config(url.endpoints.clone(), config).await
}

/// Options of the transactions of a volume.
pub(super) fn writing() -> TransactionOptions {
    options().try_one_pc()
}

/// Options of reads, and of transactions that commit in two phases. Locks do not live longer than
/// their first time, for which a request that commits them needs no renewals.
pub(super) fn options() -> TransactionOptions {
    TransactionOptions::new_optimistic()
        .drop_check(CheckLevel::None)
        .heartbeat_option(tikv_client::transaction::HeartbeatOption::NoHeartbeat)
        .retry_options(RetryOptions::new(
            Backoff::no_jitter_backoff(2, 500, 10),
            Backoff::no_jitter_backoff(2, 500, 16),
        ))
}
