//! Destroying ranges, garbage, splits.

use bytes::Bytes;
use titan_mvcc::Timestamp;

use super::call::{Call, Work};
use super::failure::Failure;
use super::key_errors::read_failure;
use crate::proto::coprocessor;
use crate::proto::kvrpcpb::{
    DeleteRangeRequest, DeleteRangeResponse, GcRequest, GcResponse, RawCoprocessorRequest,
    RawCoprocessorResponse, SplitRegionRequest, SplitRegionResponse, UnsafeDestroyRangeRequest,
    UnsafeDestroyRangeResponse,
};
use crate::records::advance_store;
use crate::regions::{KeyForm, Region};

impl Call for GcRequest {
    fn run(self, work: &Work<'_>) -> Result<GcResponse, Failure> {
        work.within(self.context.as_ref(), KeyForm::Transactional)?;
        advance_store(work.node.store(), Timestamp(self.safe_point)).map_err(read_failure)?;
        Ok(GcResponse::default())
    }
}

impl Call for DeleteRangeRequest {
    fn run(self, work: &Work<'_>) -> Result<DeleteRangeResponse, Failure> {
        let within = work.within(self.context.as_ref(), KeyForm::Transactional)?;
        let (from, to) = within.whole_range(&self.start_key, &self.end_key)?;
        // Otherwise the keys are gone already, and only replicas are to be told.
        if !self.notify_only {
            let from = from.unwrap_or_default();
            work.percolator()
                .destroy_range(&from, to.as_deref())
                .map_err(read_failure)?;
        }
        Ok(DeleteRangeResponse::default())
    }
}

impl Call for UnsafeDestroyRangeRequest {
    /// All regions: the range has no region of its own.
    fn run(self, work: &Work<'_>) -> Result<UnsafeDestroyRangeResponse, Failure> {
        // An empty message would destroy everything.
        if self.start_key.is_empty() || self.end_key.is_empty() {
            let reason = "a range to be destroyed needs a first and a last key";
            return Err(Failure::abort(reason));
        }
        let limit = work.node.regions.key_limit;
        limit.check_bound(&self.start_key)?;
        limit.check_bound(&self.end_key)?;
        work.percolator()
            .destroy_range(&self.start_key, Some(&self.end_key))
            .map_err(read_failure)?;
        Ok(UnsafeDestroyRangeResponse::default())
    }
}

impl Call for SplitRegionRequest {
    fn run(self, work: &Work<'_>) -> Result<SplitRegionResponse, Failure> {
        let form = match self.is_raw_kv {
            true => KeyForm::Raw,
            false => KeyForm::Transactional,
        };
        let within = work.within(self.context.as_ref(), form)?;
        let keys = match self.split_keys.is_empty() {
            true => vec![self.split_key],
            false => self.split_keys,
        };
        within.keys(&keys)?;
        let boundaries: Vec<Bytes> = keys
            .iter()
            .map(|key| Bytes::from(form.placed(key).into_owned()))
            .collect();
        let regions = work
            .node
            .regions
            .split(within.region.id, &boundaries)?
            .unwrap_or_default();
        let mut answer = SplitRegionResponse::default();
        if let [left, right] = &*regions {
            answer.left = Some(left.message());
            answer.right = Some(right.message());
        }
        answer.regions = regions.iter().map(Region::message).collect();
        Ok(answer)
    }
}

impl Call for coprocessor::Request {
    fn run(self, _work: &Work<'_>) -> Result<coprocessor::Response, Failure> {
        Err(Failure::abort("this node computes nothing: read the keys"))
    }
}

impl Call for RawCoprocessorRequest {
    fn run(self, _work: &Work<'_>) -> Result<RawCoprocessorResponse, Failure> {
        Err(Failure::abort("this node computes nothing: read the keys"))
    }
}
