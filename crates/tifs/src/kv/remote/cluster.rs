//! The connection to a cluster: threads of the network, and repeated calls.
//!
//! A call that fails for a reason that passes is repeated, after waits that grow and are random in
//! part. It ends at its [`Deadline`], which a whole operation may share.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard, RwLock};
use rustix::io::Errno;
use titan::Process;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::patience::{Budget, Patience};
use crate::error::{Error, Result};
use crate::kv::{Commit, RemoteUrl};

/// The first and the longest wait between two attempts.
const WAITS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(1));

/// A client of a kind of cluster. Clones share connections.
pub(in crate::kv) trait Client: Clone {
    /// The time after which a call is taken to wait at a dead connection.
    const ATTEMPT: Duration;
    /// Whether one connection asks all hosts of the address, one after the other.
    const ASKS_ALL: bool = false;

    /// The failure of a call.
    type Error: fmt::Debug;

    /// Connects. `attempt` counts the connections of a mount, for clients that use one host at a
    /// time.
    async fn connect(url: &RemoteUrl, attempt: usize) -> Result<Self, Self::Error>;

    /// Whether the same call may succeed later.
    fn passes(error: &Self::Error) -> bool;

    /// Whether the same call may succeed on another connection.
    fn is_lost(error: &Self::Error) -> bool;

    /// The text of an error.
    fn text(error: &Self::Error) -> String;

    /// The error of an operation that failed for good.
    fn translated(error: &Self::Error, place: &str) -> Error;
}

/// The end of an operation that the cluster does not answer.
#[derive(Clone, Copy, Debug)]
pub(in crate::kv) struct Deadline(Instant);

impl Deadline {
    pub(in crate::kv) fn rest(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// A connection to a cluster.
pub(in crate::kv) struct Cluster<C> {
    url: RemoteUrl,
    client: RwLock<C>,
    /// Connections made so far.
    connections: AtomicUsize,
    patience: Patience,
    /// Work that may take long is to end.
    long_ends: Notify,
    runtime: Arc<Runtime>,
    opened_by: Process,
}

impl<C> Drop for Cluster<C> {
    fn drop(&mut self) {
        if !self.opened_by.is_current() {
            // A forked child would wait for threads that it does not have.
            std::mem::forget(Arc::clone(&self.runtime));
        }
    }
}

impl<C: Client> Cluster<C> {
    /// Connects to a cluster.
    ///
    /// # Errors
    /// `ETIMEDOUT` if none answers; `EINVAL` if a file of TLS cannot be read; that of a cluster
    /// that refuses.
    pub(in crate::kv) fn connect(url: &RemoteUrl) -> Result<Self> {
        if let Some(tls) = &url.tls {
            for file in tls.all() {
                std::fs::File::open(file).map_err(|e| {
                    let reason = crate::error::reason(&e);
                    let what = format!("cannot read {}: {reason}", file.display());
                    Error::new(Errno::INVAL, what)
                })?;
            }
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("tifs-cluster")
            .enable_all()
            .build()
            .map_err(|e| Error::new(Errno::AGAIN, format!("threads of the network: {e}")))?;
        let connected = runtime.block_on(connected(url));
        let (client, connections) = connected.map_err(|error| {
            let reason = match error {
                Some(error) if !C::passes(&error) => {
                    return C::translated(&error, &url.endpoints.join(","));
                }
                Some(error) => C::text(&error),
                None => "no answer".to_owned(),
            };
            let what = format!(
                "cannot reach the cluster at {} ({reason}): check that it runs, and whether it wants TLS \
                 (ca, cert, key)",
                url.endpoints.join(",")
            );
            Error::new(Errno::TIMEDOUT, what)
        })?;
        Ok(Cluster {
            url: url.clone(),
            client: RwLock::new(client),
            connections: AtomicUsize::new(connections),
            patience: Patience::new(url.timeout),
            long_ends: Notify::new(),
            runtime: Arc::new(runtime),
            opened_by: Process::current(),
        })
    }

    /// Whether this process has the threads of the connection: a forked child has not.
    pub(in crate::kv) fn is_usable(&self) -> bool {
        self.opened_by.is_current()
    }

    /// The deadline of an operation that begins now. It is near if the cluster was silent before.
    pub(in crate::kv) fn deadline(&self) -> Deadline {
        Deadline(Instant::now() + self.patience.get())
    }

    /// The deadline of an operation that is worth the whole time, even after a silence.
    pub(in crate::kv) fn far_deadline(&self) -> Deadline {
        Deadline(Instant::now() + self.patience.whole())
    }

    /// The deadline of an attempt at an operation to begin.
    ///
    /// # Errors
    /// `ETIMEDOUT` if earlier attempts have used its time up.
    pub(in crate::kv) fn deadline_to_begin(&self, budget: &Budget) -> Result<Deadline> {
        match budget.end().map(Deadline) {
            None => Ok(self.deadline()),
            Some(end) if end.rest().is_zero() => {
                Err(self.out_of_reach("each attempt was disturbed"))
            }
            Some(end) => Ok(end),
        }
    }

    /// The deadline of an operation whose first attempt has begun.
    pub(in crate::kv) fn deadline_within(&self, budget: &Budget) -> Deadline {
        Deadline(budget.begin(self.patience.get()))
    }

    /// Whether an operation came to its deadline, and none was answered since.
    #[cfg(feature = "etcd")]
    pub(in crate::kv) fn is_silent(&self) -> bool {
        self.patience.is_silent()
    }

    /// The name of the cluster for messages.
    pub(in crate::kv) fn place(&self) -> String {
        self.url.endpoints.join(",")
    }

    /// One attempt, which may take so long.
    ///
    /// # Errors
    /// `ETIMEDOUT`; that of the attempt.
    pub(in crate::kv) fn once<T>(
        &self,
        at_most: Duration,
        attempt: impl AsyncFn(C) -> Result<T, C::Error>,
    ) -> Result<T> {
        match self.attempt(at_most, attempt) {
            Some(done) => done.map_err(|error| C::translated(&error, &self.place())),
            None => Err(self.out_of_reach("no answer")),
        }
    }

    /// One attempt at work of a thread that may take long; `None` after
    /// [`end_long`](Self::end_long).
    ///
    /// # Errors
    /// As for [`once`](Self::once).
    pub(in crate::kv) fn long<T>(
        &self,
        at_most: Duration,
        attempt: impl AsyncFn(C) -> Result<T, C::Error>,
    ) -> Result<Option<T>> {
        let work = async |client: C| {
            tokio::select! {
                done = attempt(client) => done.map(Some),
                () = self.long_ends.notified() => Ok(None),
            }
        };
        self.once(at_most, work)
    }

    /// Ends the work that may take long, also if it begins only later.
    pub(in crate::kv) fn end_long(&self) {
        self.long_ends.notify_one();
    }

    /// The answer to one attempt, if it is there in time.
    pub(in crate::kv) fn attempt<T>(
        &self,
        at_most: Duration,
        attempt: impl AsyncFn(C) -> Result<T, C::Error>,
    ) -> Option<Result<T, C::Error>> {
        // Bound before: the lock must not be held meanwhile.
        let client = self.client.read().clone();
        let answer = self.within(at_most, attempt(client));
        // One that passes may come from the client itself.
        if matches!(&answer, Some(answer) if { answer.as_ref().err() }.is_none_or(|e| !C::passes(e)))
        {
            self.patience.answered();
        }
        answer
    }

    /// Runs attempts until one succeeds or fails for good.
    ///
    /// # Errors
    /// `ETIMEDOUT` at the deadline; that of the last attempt; `EIO` in a forked child, which has
    /// none of the threads.
    pub(in crate::kv) fn call<T>(
        &self,
        deadline: Deadline,
        attempt: impl AsyncFn(C) -> Result<T, C::Error>,
    ) -> Result<T> {
        if !self.is_usable() {
            let what = "a forked child cannot use the connection of its parent to the cluster";
            return Err(Error::new(Errno::IO, what));
        }
        let (began, mut wait) = (Instant::now(), WAITS.0);
        loop {
            // Some time is left for another connection.
            let at_most = (deadline.rest() / 2).min(C::ATTEMPT);
            let failure = match self.attempt(at_most, &attempt) {
                Some(Ok(value)) => return Ok(value),
                Some(Err(error)) if !C::passes(&error) => {
                    return Err(C::translated(&error, &self.place()));
                }
                Some(Err(error)) => {
                    if C::is_lost(&error) {
                        self.reconnect(deadline);
                    }
                    C::text(&error)
                }
                None => {
                    self.reconnect(deadline);
                    "no answer".to_owned()
                }
            };
            if deadline.rest() <= wait {
                // The thread that renews the lease finds out when there are answers again.
                self.patience.ended(began.elapsed());
                return Err(self.out_of_reach(&failure));
            }
            self.pause(wait);
            wait = (2 * wait).min(WAITS.1);
        }
    }

    /// The result of a future, if it is there in time.
    pub(in crate::kv) fn within<T>(
        &self,
        at_most: Duration,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        self.runtime
            .block_on(async { timeout(at_most, future).await.ok() })
    }

    /// Runs a future beside, until it or the connection ends.
    #[cfg(feature = "etcd")]
    pub(in crate::kv) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        // Nobody waits for it.
        drop(self.runtime.spawn(future));
    }

    /// The result of a future, if it is there at the deadline.
    #[cfg(feature = "tikv")]
    pub(in crate::kv) fn until<T>(
        &self,
        deadline: Deadline,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        self.within(deadline.rest(), future)
    }

    /// The lock of data for which another call may be waiting, too.
    ///
    /// # Errors
    /// `ETIMEDOUT` at the deadline.
    pub(in crate::kv) fn lock<'m, T>(
        &self,
        mutex: &'m Mutex<T>,
        deadline: Deadline,
    ) -> Result<MutexGuard<'m, T>> {
        let locked = mutex.try_lock_for(deadline.rest());
        locked.ok_or_else(|| self.out_of_reach("another call waits, too"))
    }

    /// The result of a commit that had no answer and has done nothing: the operation may try again
    /// if it has time left.
    ///
    /// # Errors
    /// `ETIMEDOUT` at the deadline.
    pub(in crate::kv) fn unanswered(&self, deadline: Deadline) -> Result<Commit> {
        match deadline.rest().is_zero() {
            true => Err(self.out_of_reach("no answer to a commit")),
            false => Ok(Commit::Conflict),
        }
    }

    /// Waits before an attempt at a transaction that others may have disturbed.
    ///
    /// # Errors
    /// `ETIMEDOUT` at the deadline.
    pub(in crate::kv) fn wait_before_repetition(&self, deadline: Deadline) -> Result<()> {
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

    /// A new connection, if it can be made: nothing tells when the other side of the present one is
    /// gone.
    pub(in crate::kv) fn reconnect(&self, deadline: Deadline) {
        let attempt = self.connections.fetch_add(1, Ordering::Relaxed);
        let at_most = deadline.rest().min(C::ATTEMPT);
        if let Some(Ok(new)) = self.within(at_most, C::connect(&self.url, attempt)) {
            *self.client.write() = new;
        }
    }

    /// The error of an operation that the cluster did not answer.
    pub(in crate::kv) fn out_of_reach(&self, reason: &str) -> Error {
        let what = format!(
            "the cluster at {} has not answered for {} ({reason}): check that it runs and can be reached; \
             the volume goes on when it answers",
            self.place(),
            humantime::format_duration(self.patience.whole())
        );
        Error::new(Errno::TIMEDOUT, what)
    }
}

/// The first connection that succeeds, one to each host or to all, and the attempts. A host that
/// does not answer leaves time for the next ones.
async fn connected<C: Client>(url: &RemoteUrl) -> Result<(C, usize), Option<C::Error>> {
    let deadline = Deadline(Instant::now() + url.timeout);
    let mut reason = None;
    let attempts = match C::ASKS_ALL {
        true => 1,
        false => url.endpoints.len(),
    };
    for attempt in 0..attempts {
        let hosts = u32::try_from(attempts - attempt).unwrap_or(u32::MAX);
        let at_most = match hosts {
            1 => deadline.rest(),
            hosts => (deadline.rest() / hosts).min(C::ATTEMPT),
        };
        match timeout(at_most, C::connect(url, attempt)).await {
            Ok(Ok(client)) => return Ok((client, attempt + 1)),
            Ok(Err(error)) if !C::passes(&error) => return Err(Some(error)),
            Ok(Err(error)) => reason = Some(error),
            Err(_) => {}
        }
    }
    Err(reason)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;

    /// A client of a cluster whose first member accepts connections and never answers.
    #[derive(Clone)]
    struct SecondAnswers;

    impl Client for SecondAnswers {
        const ATTEMPT: Duration = Duration::from_secs(4);

        type Error = String;

        async fn connect(_url: &RemoteUrl, attempt: usize) -> Result<Self, String> {
            match attempt {
                0 => std::future::pending().await,
                _ => Ok(SecondAnswers),
            }
        }

        fn passes(_error: &String) -> bool {
            true
        }

        fn is_lost(_error: &String) -> bool {
            false
        }

        fn text(error: &String) -> String {
            error.clone()
        }

        fn translated(error: &String, _place: &str) -> Error {
            Error::new(Errno::IO, error.clone())
        }
    }

    #[test]
    fn a_first_member_that_is_silent_leaves_time_for_the_second() {
        let url = RemoteUrl::parse("tikv://a:1,b:1/v?timeout=2s").unwrap();
        Cluster::<SecondAnswers>::connect(&url).unwrap();
        let alone = RemoteUrl::parse("tikv://a:1/v?timeout=1s").unwrap();
        let error = Cluster::<SecondAnswers>::connect(&alone).err().unwrap();
        assert!(error.to_string().contains("no answer"), "{error}");
    }

    #[test]
    fn an_operation_has_one_deadline_for_all_its_attempts() {
        let url = RemoteUrl::parse("tikv://a:1,b:1/v?timeout=1s").unwrap();
        let cluster = Cluster::<SecondAnswers>::connect(&url).unwrap();
        let budget = Budget::default();
        cluster.deadline_to_begin(&budget).unwrap();
        let first = cluster.deadline_within(&budget);
        assert_eq!(cluster.unanswered(first).unwrap(), Commit::Conflict);
        std::thread::sleep(Duration::from_millis(500));
        assert!(cluster.deadline_within(&budget).rest() < Duration::from_millis(600));
        std::thread::sleep(first.rest());
        for over in [
            cluster.unanswered(first).err(),
            cluster.deadline_to_begin(&budget).err(),
        ] {
            let over = over.unwrap();
            assert_eq!(over.errno(), Errno::TIMEDOUT);
            assert!(over.is_failure(), "{over}");
        }
    }
}
