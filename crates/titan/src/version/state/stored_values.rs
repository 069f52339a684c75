//! The separated values of one version, as a source of lazy values.
//!
//! Promises that the files of the version stay readable for as long as this exists.

use std::sync::Arc;

use bytes::Bytes;

use super::version::Version;
use crate::blob::ValueFetcher;
use crate::error::Result;
use crate::format::blob_index::BlobIndex;
use crate::lazy_value::ValueSource;

/// Fetches values to which tables of a version point.
pub(crate) struct StoredValues {
    fetcher: ValueFetcher,
    /// Pins the files. Not the memtables, which may be large.
    version: Arc<Version>,
}

impl StoredValues {
    /// The values of `version`, counted by `fetcher`.
    pub(crate) fn of(version: &Arc<Version>, fetcher: &ValueFetcher) -> Arc<Self> {
        Arc::new(StoredValues {
            fetcher: fetcher.clone(),
            version: Arc::clone(version),
        })
    }
}

impl ValueSource for StoredValues {
    fn fetch(&self, user_key: &[u8], index: &BlobIndex) -> Result<Bytes> {
        self.fetcher.fetch(&*self.version, user_key, index)
    }

    fn verify(&self, user_key: &[u8], index: &BlobIndex) -> Result<()> {
        self.fetcher.verify(&*self.version, user_key, index)
    }

    fn read_part(
        &self,
        user_key: &[u8],
        index: &BlobIndex,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<()> {
        let (fetcher, version) = (&self.fetcher, &*self.version);
        fetcher.read_part(version, user_key, index, offset, buf)
    }
}
