//! Calls of a client: each goes to the region of its keys, and again when that has changed.

use std::time::{Duration, Instant};

use bytes::Bytes;
use titan_mvcc::codec::encode_key;
use titan_server::proto::errorpb;
use titan_server::proto::kvrpcpb::{self, Context};
use titan_server::proto::pdpb::pd_client::PdClient;
use titan_server::proto::pdpb::{GetMembersRequest, GetRegionRequest, RequestHeader, TsoRequest};
use titan_server::proto::tikvpb::tikv_client::TikvClient;
use titan_testkit::failure::{CheckFailure, Checked, Doing};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use super::node::ServedNode;

/// The longest time that a call takes, and a start of the node.
const PATIENCE: Duration = Duration::from_secs(60);

/// The reason for which a call has no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The connection broke: the node may have done the call.
    Lost,
    /// An error that cannot be.
    Failed(CheckFailure),
}

impl From<CheckFailure> for Trouble {
    fn from(failure: CheckFailure) -> Self {
        Trouble::Failed(failure)
    }
}

pub(super) type Called<T> = Result<T, Trouble>;

/// An error that cannot be.
pub(super) fn wrong<T>(what: impl std::fmt::Display) -> Called<T> {
    Err(Trouble::Failed(CheckFailure::wrong(what.to_string())))
}

/// An answer that may say that its region is another one now.
pub(super) trait Answer {
    fn region_error(&mut self) -> Option<errorpb::Error>;
}

macro_rules! answers {
    ($($name:ident),*) => {
        $(impl Answer for kvrpcpb::$name {
            fn region_error(&mut self) -> Option<errorpb::Error> {
                self.region_error.take()
            }
        })*
    };
}

answers!(
    GetResponse,
    ScanResponse,
    PrewriteResponse,
    CommitResponse,
    BatchRollbackResponse,
    PessimisticLockResponse,
    PessimisticRollbackResponse,
    TxnHeartBeatResponse,
    CheckTxnStatusResponse,
    CheckSecondaryLocksResponse,
    ScanLockResponse,
    ResolveLockResponse,
    SplitRegionResponse
);

/// A key on the wire.
pub(super) fn key(number: u8) -> Bytes {
    Bytes::copy_from_slice(&[b'k', number])
}

/// The number of a key on the wire.
pub(super) fn number(key: &[u8]) -> Called<u8> {
    match key {
        [b'k', number] => Ok(*number),
        _ => wrong(format!("a key {key:?}")),
    }
}

/// A region, by the boundaries of the placement driver.
struct Region {
    start: Bytes,
    end: Bytes,
    context: Context,
}

struct Open {
    tikv: TikvClient<Channel>,
    pd: PdClient<Channel>,
    cluster: u64,
}

/// The connection of a client. It opens itself again.
pub(super) struct Connection<'a> {
    node: &'a ServedNode,
    runtime: Runtime,
    open: Option<Open>,
    regions: Vec<Region>,
}

impl<'a> Connection<'a> {
    pub(super) fn new(node: &'a ServedNode) -> Checked<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .doing("a runtime")?;
        Ok(Connection {
            node,
            runtime,
            open: None,
            regions: Vec::new(),
        })
    }

    /// A new timestamp. Repeated until there is one.
    pub(super) fn timestamp(&mut self) -> Called<u64> {
        self.persist(|own| {
            own.pd(async |pd, header| {
                let request = TsoRequest {
                    header,
                    count: 1,
                    ..TsoRequest::default()
                };
                let answers = pd.tso(tokio_stream::once(request)).await?;
                let answer = answers.into_inner().message().await?;
                let at = answer.and_then(|answer| answer.timestamp);
                let at = at.ok_or_else(|| Status::unavailable("the stream ended"))?;
                Ok((at.physical as u64) << 18 | at.logical as u64)
            })
        })
    }

    /// A call of the placement driver.
    pub(super) fn pd<T>(
        &mut self,
        call: impl AsyncFnOnce(&mut PdClient<Channel>, Option<RequestHeader>) -> Result<T, Status>,
    ) -> Called<T> {
        self.open()?;
        let Some(open) = &mut self.open else {
            return Err(Trouble::Lost);
        };
        let header = Some(RequestHeader {
            cluster_id: open.cluster,
            sender_id: 0,
        });
        let answered = async { timeout(PATIENCE, call(&mut open.pd, header)).await };
        match self.runtime.block_on(answered) {
            Ok(answer) => answer.map_err(|status| self.broken(status)),
            Err(_) => wrong("a call hangs"),
        }
    }

    /// Makes a call for each region in which there are some of the keys.
    pub(super) fn regions<T: Answer>(
        &mut self,
        keys: &[u8],
        mut call: impl AsyncFnMut(
            &mut TikvClient<Channel>,
            Context,
            &[u8],
        ) -> Result<Response<T>, Status>,
    ) -> Called<Vec<T>> {
        let mut answers = Vec::new();
        let mut left = keys.to_vec();
        let began = Instant::now();
        while let Some(first) = left.first() {
            let at = self.region(&encode_key(&key(*first)))?;
            let region = &self.regions[at];
            let (here, others): (Vec<u8>, Vec<u8>) = left
                .iter()
                .partition(|one| region.has(&encode_key(&key(**one))));
            let context = region.context.clone();
            let mut answer = self.tikv(async |tikv| call(tikv, context, &here).await)?;
            match answer.region_error() {
                None => {
                    answers.push(answer);
                    left = others;
                }
                Some(error) if began.elapsed() > PATIENCE => return wrong(error.message),
                Some(error) => {
                    self.regions.clear();
                    if error.server_is_busy.is_some() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
        }
        Ok(answers)
    }

    /// Makes a call for one key.
    pub(super) fn region_of<T: Answer>(
        &mut self,
        key: u8,
        mut call: impl AsyncFnMut(&mut TikvClient<Channel>, Context) -> Result<Response<T>, Status>,
    ) -> Called<T> {
        let called = self.regions(&[key], async |tikv, context, _| call(tikv, context).await);
        match called?.pop() {
            Some(answer) => Ok(answer),
            None => wrong("no answer"),
        }
    }

    /// Repeats a call that can be done twice, while the connection breaks.
    pub(super) fn persist<T>(&mut self, mut call: impl FnMut(&mut Self) -> Called<T>) -> Called<T> {
        let began = Instant::now();
        loop {
            match call(self) {
                Err(Trouble::Lost) if began.elapsed() < PATIENCE => {}
                other => return other,
            }
        }
    }

    fn tikv<T>(
        &mut self,
        call: impl AsyncFnOnce(&mut TikvClient<Channel>) -> Result<Response<T>, Status>,
    ) -> Called<T> {
        self.open()?;
        let Some(open) = &mut self.open else {
            return Err(Trouble::Lost);
        };
        let answered = async { timeout(PATIENCE, call(&mut open.tikv)).await };
        match self.runtime.block_on(answered) {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(self.broken(status)),
            Err(_) => wrong("a call hangs"),
        }
    }

    /// The meaning of a status: calls that were done or refused have none.
    fn broken(&mut self, status: Status) -> Trouble {
        match status.code() {
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal => {
                self.open = None;
                Trouble::Lost
            }
            _ => Trouble::Failed(CheckFailure::wrong(status.to_string())),
        }
    }

    fn open(&mut self) -> Called<()> {
        let began = Instant::now();
        while self.open.is_none() {
            match self.connect() {
                Ok(open) => self.open = Some(open),
                Err(e) if began.elapsed() > PATIENCE => return wrong(e),
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        Ok(())
    }

    fn connect(&self) -> Result<Open, String> {
        let address = format!("http://{}", self.node.address());
        let connected = async {
            let endpoint = Channel::from_shared(address).map_err(|e| e.to_string())?;
            let channel = endpoint.connect().await.map_err(|e| e.to_string())?;
            let mut pd = PdClient::new(channel.clone());
            let members = pd.get_members(GetMembersRequest::default()).await;
            let members = members.map_err(|e| e.to_string())?.into_inner();
            Ok(Open {
                tikv: TikvClient::new(channel),
                pd,
                cluster: members.header.map_or(0, |header| header.cluster_id),
            })
        };
        self.runtime.block_on(connected)
    }

    /// The region of a boundary.
    fn region(&mut self, boundary: &[u8]) -> Called<usize> {
        if let Some(at) = self.regions.iter().position(|region| region.has(boundary)) {
            return Ok(at);
        }
        let region_key = Bytes::copy_from_slice(boundary);
        let answer = self.persist(|own| {
            own.pd(async |pd, header| {
                let request = GetRegionRequest {
                    header,
                    region_key: region_key.clone(),
                    need_buckets: false,
                };
                Ok(pd.get_region(request).await?.into_inner())
            })
        })?;
        let Some(region) = answer.region else {
            return wrong("a key has no region");
        };
        self.regions.push(Region {
            start: region.start_key,
            end: region.end_key,
            context: Context {
                region_id: region.id,
                region_epoch: region.region_epoch,
                peer: answer.leader,
                ..Context::default()
            },
        });
        Ok(self.regions.len() - 1)
    }
}

impl Region {
    fn has(&self, boundary: &[u8]) -> bool {
        *self.start <= *boundary && (self.end.is_empty() || *boundary < *self.end)
    }
}
