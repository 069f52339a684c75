//! Snapshots and transactions as [`Reader`]s, an interface that the engine's share.

use bytes::Bytes;
use titan::{LazyValue, Reader, Retryable, Rows};

use super::optimistic::Transaction;
use super::pessimistic::PessimisticTransaction;
use crate::error::{Error, Result};
use crate::lookup::Direction;
use crate::read::{Row, Snapshot};

impl Retryable for Error {
    fn is_retryable(&self) -> bool {
        Error::is_retryable(self)
    }
}

/// The rows of a scan, as a [`Reader`] returns them.
fn rows<'r>(scan: impl Iterator<Item = Result<Row>> + 'r) -> Rows<'r, Error> {
    Rows::new(scan.map(|row| row.map(|row| (Bytes::from(row.key), row.value))))
}

macro_rules! reader {
    ($reader:ty) => {
        impl Reader for $reader {
            type Error = Error;

            fn get_lazy(&self, key: &[u8]) -> Result<Option<LazyValue>> {
                <$reader>::get_lazy(self, key)
            }

            fn scan(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Rows<'_, Error>> {
                Ok(rows(<$reader>::scan(self, from, to, Direction::Forward)?))
            }

            fn scan_backward(
                &self,
                from: Option<&[u8]>,
                to: Option<&[u8]>,
            ) -> Result<Rows<'_, Error>> {
                Ok(rows(<$reader>::scan(self, from, to, Direction::Backward)?))
            }

            fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
                <$reader>::get(self, key)
            }
        }
    };
}

reader!(Snapshot);
reader!(Transaction);
reader!(PessimisticTransaction);
