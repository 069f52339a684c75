//! Points, batches and scans at a timestamp.

use bytes::Bytes;
use titan_mvcc::{Direction, Error, Scan, Timestamp};

use super::call::{Call, Work};
use super::failure::Failure;
use super::key_errors::read_failure;
use crate::node::Shared;
use crate::proto::kvrpcpb::{
    BatchGetRequest, BatchGetResponse, GetRequest, GetResponse, KvPair, ScanRequest, ScanResponse,
};
use crate::proto::scan::Pairs;
use crate::regions::KeyForm;

impl Call for GetRequest {
    fn run(self, work: &Work<'_>) -> Result<GetResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        within.keys([&self.key])?;
        let snapshot = work.snapshot(self.version, self.context.as_ref())?;
        let value = snapshot.get(&self.key).map_err(read_failure)?;
        work.reserve(value.as_ref().map_or(0, Bytes::len))?;
        Ok(GetResponse {
            not_found: value.is_none(),
            value: value.unwrap_or_default(),
            ..GetResponse::default()
        })
    }

    fn is_read(&self) -> bool {
        true
    }

    fn is_short(&self, node: &Shared) -> bool {
        !node.store().may_wait_for(Timestamp(self.version))
    }
}

impl Call for BatchGetRequest {
    fn run(self, work: &Work<'_>) -> Result<BatchGetResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        within.keys(&self.keys)?;
        let snapshot = work.snapshot(self.version, self.context.as_ref())?;
        let mut pairs = Vec::new();
        for key in self.keys {
            work.check_time()?;
            match snapshot.get(&key) {
                Ok(None) => {}
                Ok(Some(value)) => {
                    pairs.push(work.pair(key, value)?);
                }
                Err(error) => pairs.push(locked(work, error)?),
            }
        }
        Ok(BatchGetResponse {
            pairs,
            ..BatchGetResponse::default()
        })
    }

    fn is_read(&self) -> bool {
        true
    }
}

impl Call for ScanRequest {
    fn run(self, work: &Work<'_>) -> Result<ScanResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        let ((from, to), direction) = match self.reverse {
            false => (
                within.range(&self.start_key, &self.end_key)?,
                Direction::Forward,
            ),
            true => (
                within.range_backward(&self.start_key, &self.end_key)?,
                Direction::Backward,
            ),
        };
        let snapshot = work.snapshot(self.version, self.context.as_ref())?;
        let mut scan = snapshot
            .scan(from.as_deref(), to.as_deref(), direction)
            .map_err(read_failure)?;
        let mut pairs = Pairs::default();
        // Every row but the first of each step is left out.
        let left_out = self.sample_step.max(1) as usize - 1;
        for number in 0..self.limit as usize {
            work.check_time_at(number)?;
            if number > 0 && !pass(&mut scan, left_out, work)? {
                break;
            }
            let row = match scan.next_ref() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(error) => {
                    pairs.add_message(&locked(work, error)?);
                    continue;
                }
            };
            let value = match self.key_only {
                true => None,
                false => Some(row.value().map_err(read_failure)?),
            };
            let (key, value) = (row.key(), value.as_deref().unwrap_or_default());
            work.reserve(Pairs::MOST_BESIDE + key.len() + value.len())?;
            pairs.add(key, value);
        }
        Ok(ScanResponse {
            pairs,
            ..ScanResponse::default()
        })
    }

    fn is_read(&self) -> bool {
        true
    }
}

/// Passes over rows. Returns false at the end of the range.
fn pass(scan: &mut Scan, rows: usize, work: &Work<'_>) -> Result<bool, Failure> {
    for row in 0..rows {
        work.check_time_at(row)?;
        match scan.next_ref() {
            Ok(Some(_)) | Err(Error::KeyIsLocked(_)) => {}
            Ok(None) => return Ok(false),
            Err(error) => return Err(read_failure(error)),
        }
    }
    Ok(true)
}

/// The pair of a locked key; any other error ends the call.
fn locked(work: &Work<'_>, error: Error) -> Result<KvPair, Failure> {
    let Error::KeyIsLocked(lock) = error else {
        return Err(read_failure(error));
    };
    let pair = work.pair(Bytes::new(), Bytes::new())?;
    Ok(KvPair {
        error: Some(Box::new(work.locked(&lock)?)),
        ..pair
    })
}
