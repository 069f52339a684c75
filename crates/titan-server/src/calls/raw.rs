//! Raw keys.

use bytes::Bytes;
use titan_mvcc::Direction;
use tonic::Status;

use super::call::{Call, Work};
use super::failure::Failure;
use super::keys::Keys;
use crate::node::Shared;
use crate::proto::kvrpcpb::{
    Context, KvPair, RawBatchDeleteRequest, RawBatchDeleteResponse, RawBatchGetRequest,
    RawBatchGetResponse, RawBatchPutRequest, RawBatchPutResponse, RawBatchScanRequest,
    RawBatchScanResponse, RawCasRequest, RawCasResponse, RawDeleteRangeRequest,
    RawDeleteRangeResponse, RawDeleteRequest, RawDeleteResponse, RawGetKeyTtlRequest,
    RawGetKeyTtlResponse, RawGetRequest, RawGetResponse, RawPutRequest, RawPutResponse,
    RawScanRequest, RawScanResponse,
};
use crate::raw::Put;
use crate::regions::{KeyForm, Within};

/// The region of a raw call.
fn within(work: &Work<'_>, context: Option<&Context>, family: &str) -> Result<Within, Failure> {
    let within = work.within(context, KeyForm::Raw)?;
    match family {
        "" | "default" => Ok(within),
        other => Err(Failure::abort(format!(
            "invalid column family {other}: there is only default"
        ))),
    }
}

/// The failure of a write. If it may be there later, the client must not take it for undone.
fn write_failure(work: &Work<'_>) -> impl FnOnce(titan::Error) -> Failure {
    let db = &work.node.records;
    |error| match Failure::of_commit(&error, db) {
        Some(_) => Failure::from(Status::unknown(error.to_string())),
        None => error.into(),
    }
}

impl Call for RawGetRequest {
    fn run(self, work: &Work<'_>) -> Result<RawGetResponse, Failure> {
        within(work, self.context.as_ref(), &self.cf)?.keys([&self.key])?;
        let value = work.node.raw.get(&self.key)?;
        work.reserve(value.as_ref().map_or(0, Bytes::len))?;
        Ok(RawGetResponse {
            not_found: value.is_none(),
            value: value.unwrap_or_default(),
            ..RawGetResponse::default()
        })
    }

    fn is_read(&self) -> bool {
        true
    }

    fn is_short(&self, _node: &Shared) -> bool {
        true
    }
}

impl Call for RawGetKeyTtlRequest {
    fn run(self, work: &Work<'_>) -> Result<RawGetKeyTtlResponse, Failure> {
        within(work, self.context.as_ref(), &self.cf)?.keys([&self.key])?;
        let ttl = work.node.raw.ttl(&self.key)?;
        Ok(RawGetKeyTtlResponse {
            not_found: ttl.is_none(),
            ttl: ttl.unwrap_or_default(),
            ..RawGetKeyTtlResponse::default()
        })
    }

    fn is_read(&self) -> bool {
        true
    }

    fn is_short(&self, _node: &Shared) -> bool {
        true
    }
}

impl Call for RawBatchGetRequest {
    fn run(self, work: &Work<'_>) -> Result<RawBatchGetResponse, Failure> {
        within(work, self.context.as_ref(), &self.cf)?.keys(&self.keys)?;
        let mut pairs = Vec::new();
        for key in self.keys {
            work.check_time()?;
            if let Some(value) = work.node.raw.get(&key)? {
                pairs.push(work.pair(key, value)?);
            }
        }
        Ok(RawBatchGetResponse {
            pairs,
            ..RawBatchGetResponse::default()
        })
    }

    fn is_read(&self) -> bool {
        true
    }
}

impl Call for RawPutRequest {
    fn run(self, work: &Work<'_>) -> Result<RawPutResponse, Failure> {
        let within = within(work, self.context.as_ref(), &self.cf)?;
        within.keys([&self.key])?;
        work.check_room(self.context.as_ref())?;
        work.check_value(&self.value)?;
        let put = Put {
            key: &self.key,
            value: &self.value,
            ttl: self.ttl,
        };
        work.node.raw.put([put]).map_err(write_failure(work))?;
        let bytes = self.key.len() + self.value.len();
        work.node.note_written(&within, bytes, 1);
        Ok(RawPutResponse::default())
    }
}

impl Call for RawBatchPutRequest {
    fn run(self, work: &Work<'_>) -> Result<RawBatchPutResponse, Failure> {
        let within = within(work, self.context.as_ref(), &self.cf)?;
        within.keys(self.pairs.iter().map(|pair| &pair.key))?;
        work.check_room(self.context.as_ref())?;
        let (mut bytes, count) = (0, self.pairs.len());
        for KvPair { key, value, .. } in &self.pairs {
            work.check_value(value)?;
            bytes += key.len() + value.len();
        }
        let ttls = match &*self.ttls {
            [] => vec![self.ttl; count],
            [one] => vec![*one; count],
            each if each.len() == count => each.to_vec(),
            each => {
                let given = each.len();
                let reason = format!("{given} times to live for {count} pairs");
                return Err(Failure::abort(reason));
            }
        };
        let puts = self.pairs.iter().zip(ttls).map(|(pair, ttl)| Put {
            key: &pair.key,
            value: &pair.value,
            ttl,
        });
        let done = work.node.raw.put(puts);
        done.map_err(write_failure(work))?;
        work.node.note_written(&within, bytes, count);
        Ok(RawBatchPutResponse::default())
    }
}

impl Call for RawDeleteRequest {
    fn run(self, work: &Work<'_>) -> Result<RawDeleteResponse, Failure> {
        within(work, self.context.as_ref(), &self.cf)?.keys([&self.key])?;
        let done = work.node.raw.delete(&[self.key]);
        done.map_err(write_failure(work))?;
        Ok(RawDeleteResponse::default())
    }
}

impl Call for RawBatchDeleteRequest {
    fn run(self, work: &Work<'_>) -> Result<RawBatchDeleteResponse, Failure> {
        within(work, self.context.as_ref(), &self.cf)?.keys(&self.keys)?;
        let done = work.node.raw.delete(&self.keys);
        done.map_err(write_failure(work))?;
        Ok(RawBatchDeleteResponse::default())
    }
}

impl Call for RawDeleteRangeRequest {
    fn run(self, work: &Work<'_>) -> Result<RawDeleteRangeResponse, Failure> {
        let within = within(work, self.context.as_ref(), &self.cf)?;
        let (from, to) = within.whole_range(&self.start_key, &self.end_key)?;
        let from = from.unwrap_or_default();
        let done = work.node.raw.delete_range(&from, to.as_deref());
        done.map_err(write_failure(work))?;
        Ok(RawDeleteRangeResponse::default())
    }
}

impl Call for RawScanRequest {
    fn run(self, work: &Work<'_>) -> Result<RawScanResponse, Failure> {
        let within = within(work, self.context.as_ref(), &self.cf)?;
        let scan = Scan {
            limit: self.limit as usize,
            keys_only: self.key_only,
            is_backward: self.reverse,
        };
        let mut kvs = Vec::new();
        scan.run(work, &within, &self.start_key, &self.end_key, &mut kvs)?;
        Ok(RawScanResponse {
            kvs,
            ..RawScanResponse::default()
        })
    }

    fn is_read(&self) -> bool {
        true
    }
}

impl Call for RawBatchScanRequest {
    fn run(self, work: &Work<'_>) -> Result<RawBatchScanResponse, Failure> {
        let within = within(work, self.context.as_ref(), &self.cf)?;
        let scan = Scan {
            limit: self.each_limit as usize,
            keys_only: self.key_only,
            is_backward: self.reverse,
        };
        let mut kvs = Vec::new();
        for (number, range) in self.ranges.iter().enumerate() {
            work.check_time_at(number)?;
            let (from, to) = (&range.start_key, &range.end_key);
            scan.run(work, &within, from, to, &mut kvs)?;
        }
        Ok(RawBatchScanResponse {
            kvs,
            ..RawBatchScanResponse::default()
        })
    }

    fn is_read(&self) -> bool {
        true
    }
}

/// A scan of raw keys.
struct Scan {
    limit: usize,
    keys_only: bool,
    is_backward: bool,
}

impl Scan {
    fn run(
        &self,
        work: &Work<'_>,
        within: &Within,
        from: &Bytes,
        to: &Bytes,
        into: &mut Vec<KvPair>,
    ) -> Result<(), Failure> {
        let ((lower, upper), direction) = match self.is_backward {
            false => (within.range(from, to)?, Direction::Forward),
            true => (within.range_backward(from, to)?, Direction::Backward),
        };
        let (lower, upper) = (lower.as_deref(), upper.as_deref());
        let mut keys = Keys::default();
        let mut scan = work
            .node
            .raw
            .scan(lower, upper, direction, self.keys_only)?;
        for number in 0..self.limit {
            work.check_time_at(number)?;
            let Some((key, mut value)) = scan.next(|key| keys.add(key))? else {
                break;
            };
            if self.keys_only {
                value = Bytes::new();
            }
            into.push(work.pair(key, value)?);
        }
        Ok(())
    }
}

impl Call for RawCasRequest {
    fn run(self, work: &Work<'_>) -> Result<RawCasResponse, Failure> {
        let within = within(work, self.context.as_ref(), &self.cf)?;
        within.keys([&self.key])?;
        if !self.delete {
            work.check_room(self.context.as_ref())?;
        }
        work.check_value(&self.value)?;
        let expected = (!self.previous_not_exist).then_some(&*self.previous_value);
        let new = (!self.delete).then_some(&*self.value);
        // The answer of a swap that is done has this value. One that is not may be refused later.
        work.reserve(size_of::<RawCasResponse>() + expected.map_or(0, <[u8]>::len))?;
        let swapped = work
            .node
            .raw
            .compare_and_swap(&self.key, expected, new, self.ttl)
            .map_err(write_failure(work))?;
        if swapped.is_done {
            let bytes = self.key.len() + self.value.len();
            work.node.note_written(&within, bytes, 1);
        }
        Ok(RawCasResponse {
            succeed: swapped.is_done,
            previous_not_exist: swapped.before.is_none(),
            previous_value: swapped.before.unwrap_or_default(),
            ..RawCasResponse::default()
        })
    }
}
