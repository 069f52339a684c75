//! The client of a cluster: its settings, and the time of the cluster.

use std::time::Duration;

use tikv_client::{
    Backoff, CheckLevel, Config, Error as ClientError, RetryOptions, Timestamp, TransactionClient,
    TransactionOptions,
};

use super::failures;
use crate::error::{Error, Result};
use crate::kv::RemoteUrl;
use crate::kv::remote::cluster::{self, Client, Deadline};

/// The most bytes of an answer.
const LARGEST_ANSWER: usize = 72 << 20;
/// The time after which a request is sent again.
const REQUEST: Duration = Duration::from_secs(5);

/// A connection to a TiKV cluster.
pub(super) type Cluster = cluster::Cluster<TransactionClient>;

impl Client for TransactionClient {
    const ATTEMPT: Duration = Duration::from_secs(10);
    const ASKS_ALL: bool = true;

    type Error = ClientError;

    /// Connects to the placement drivers, all at once.
    async fn connect(url: &RemoteUrl, _attempt: usize) -> Result<Self, ClientError> {
        let mut config = Config::default()
            .with_timeout(REQUEST)
            .with_grpc_max_decoding_message_size(LARGEST_ANSWER);
        if let Some(tls) = &url.tls
            && let Some(client) = &tls.client
        {
            config = config.with_security(&tls.ca, &client.cert, &client.key);
        }
        TransactionClient::new_with_config(url.endpoints.clone(), config).await
    }

    fn passes(error: &ClientError) -> bool {
        failures::passes(error)
    }

    /// Never: the client finds nodes by itself.
    fn is_lost(_error: &ClientError) -> bool {
        false
    }

    fn text(error: &ClientError) -> String {
        failures::text(error)
    }

    fn translated(error: &ClientError, place: &str) -> Error {
        failures::translated(error, place)
    }
}

/// A timestamp after all that were given before.
pub(super) fn timestamp(cluster: &Cluster, deadline: Deadline) -> Result<Timestamp> {
    cluster.call(deadline, async |client: TransactionClient| {
        client.current_timestamp().await
    })
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
