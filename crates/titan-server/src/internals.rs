//! A node that listens nowhere, and calls with any bytes, for tests and for the fuzz targets of
//! `titan_campaigns`. No public interface.

use std::path::Path;

use bytes::{Buf, BufMut, Bytes};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::service::Routes;

use titan_mvcc::{CheckReport, Direction};

use crate::error::Result;
use crate::options::NodeOptions;
use crate::server::Opened;

pub use crate::services::PANICKED;

/// An open node that listens nowhere.
pub struct LocalNode {
    opened: Opened,
    routes: Routes,
}

/// The contents of a node.
#[derive(Debug, PartialEq)]
pub struct Contents {
    /// The check of all versions.
    pub versions: CheckReport,
    /// Raw keys and their values.
    pub raw: Vec<(Bytes, Bytes)>,
    /// The numbers, first keys and versions of the regions. They cover all keys.
    pub regions: Vec<(u64, Bytes, u64)>,
    /// The safe point.
    pub safe_point: u64,
    /// The names, safe points and ends of services.
    pub services: Vec<(Bytes, u64, u64)>,
    /// Saved keys and their values, with the revisions of their first and last put, and the number
    /// of puts.
    pub saved: Vec<(Bytes, Bytes, [u64; 3])>,
    /// The last revision of saved keys.
    pub revision: u64,
}

impl LocalNode {
    /// Opens the node in the directory `dir`, or makes one.
    ///
    /// # Errors
    /// Those of [`Node::start`](crate::Node::start).
    pub fn open(dir: impl AsRef<Path>, options: &NodeOptions) -> Result<Self> {
        let opened = Opened::open(dir.as_ref(), options, "127.0.0.1:1".to_owned())?;
        let routes = opened.routes(options);
        Ok(LocalNode { opened, routes })
    }

    /// The number of the cluster.
    pub fn cluster_id(&self) -> u64 {
        self.opened.shared().cluster_id
    }

    /// The services. Calls need a runtime.
    pub fn routes(&self) -> Routes {
        self.routes.clone()
    }

    /// Reads everything, and checks it.
    ///
    /// # Errors
    /// Those of the store and the engine.
    pub fn contents(&self) -> Result<Contents> {
        let shared = self.opened.shared();
        let mut raw = Vec::new();
        let mut scan = shared.raw.scan(None, None, Direction::Forward, false)?;
        while let Some(pair) = scan.next(Bytes::copy_from_slice)? {
            raw.push(pair);
        }
        let regions = shared.regions.list(&[], &[], usize::MAX).into_iter();
        let (saved, _) = shared.saved_keys.range(&[], None, usize::MAX)?;
        let saved = saved.into_iter().map(|saved| {
            let numbers = [saved.created, saved.modified, saved.version];
            (saved.key, saved.value, numbers)
        });
        Ok(Contents {
            versions: shared.store().check(&mut |_| {})?,
            raw,
            regions: regions
                .map(|region| (region.id, region.start, region.version))
                .collect(),
            safe_point: shared.safe_points.present(),
            services: shared.safe_points.services(),
            saved: saved.collect(),
            revision: shared.saved_keys.revision(),
        })
    }

    /// Closes the node. Calls that run go on, and fail.
    ///
    /// # Errors
    /// Those of the databases.
    pub fn close(self) -> Result<()> {
        self.opened.close()
    }
}

/// Messages as bytes, for the transport.
#[derive(Debug)]
pub struct Plain;

impl Codec for Plain {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Plain;
    type Decoder = Plain;

    fn encoder(&mut self) -> Plain {
        Plain
    }

    fn decoder(&mut self) -> Plain {
        Plain
    }
}

impl Encoder for Plain {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> std::result::Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> std::result::Result<Option<Bytes>, Status> {
        let len = from.remaining();
        Ok(Some(from.copy_to_bytes(len)))
    }
}
