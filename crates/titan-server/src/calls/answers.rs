//! The memory of requests, and the places of errors in answers.

use prost::Message;
use tonic::{Code, Status};

use super::failure::{Failure, undetermined};
use crate::proto::kvrpcpb::{self, Context, KeyError, KvPair};
use crate::proto::{coprocessor, errorpb};

/// A request, with what its answer can say about errors.
pub(crate) trait Answered: Message + Default + Clone + 'static {
    /// The answer.
    type Answer: Message + Default + 'static;

    /// The name of the call, for metrics.
    const NAME: &'static str;

    /// The region and the limits of the request.
    fn context(&self) -> Option<&Context>;

    /// The bytes that the request takes. Its encoding may be far smaller.
    fn memory(&self) -> usize;

    /// The answer with a region error.
    fn with_region_error(error: errorpb::Error) -> Self::Answer;

    /// The answer with an error of a key, or a status if the answer has no place for it.
    fn with_key_error(error: KeyError) -> Result<Self::Answer, Status>;
}

/// The answer of a call that has failed.
pub(crate) fn refused<C: Answered>(failure: Failure) -> Result<C::Answer, Status> {
    match failure {
        Failure::Region(error) => Ok(C::with_region_error(*error)),
        Failure::Key(error) => C::with_key_error(*error),
        Failure::Status(status) => Err(*status),
    }
}

/// The answer of a call within a batch that has failed. A status would end all its calls.
pub(crate) fn refused_in_batch<C: Answered>(failure: Failure) -> C::Answer {
    refused::<C>(failure).unwrap_or_else(|status| {
        let message = status.message().to_owned();
        // A client takes any other error for a call that has done nothing.
        if status.code() == Code::Unknown {
            return C::with_region_error(undetermined(message));
        }
        let abort = KeyError {
            abort: message,
            ..KeyError::default()
        };
        C::with_key_error(abort).unwrap_or_else(|status| {
            C::with_region_error(errorpb::Error {
                message: status.message().to_owned(),
                ..errorpb::Error::default()
            })
        })
    })
}

/// An error of a key as text.
fn text(error: KeyError) -> String {
    match error.abort.is_empty() {
        true => format!("{error:?}"),
        false => error.abort,
    }
}

/// The bytes that the elements of a list take.
fn elements<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

/// The bytes that the lists of a context take.
fn lists(context: &Context) -> usize {
    elements(&context.resolved_locks) + elements(&context.committed_locks)
}

/// Implements [`Answered`]. The place of key errors is one field, one field and the first pair, a
/// list, a text, or none. The lists of the request come last.
macro_rules! answers {
    ($(
        $package:ident::$request:ident => $answer:ident, $name:literal, $place:ident
        $(, $list:ident)*;
    )*) => {
        $(
            impl Answered for $package::$request {
                type Answer = $package::$answer;

                const NAME: &'static str = $name;

                fn context(&self) -> Option<&Context> {
                    self.context.as_ref()
                }

                fn memory(&self) -> usize {
                    let lists = self.context.as_ref().map_or(0, lists);
                    size_of::<Self>() + self.encoded_len() + lists $(+ elements(&self.$list))*
                }

                fn with_region_error(error: errorpb::Error) -> Self::Answer {
                    $package::$answer {
                        region_error: Some(error),
                        ..Default::default()
                    }
                }

                fn with_key_error(error: KeyError) -> Result<Self::Answer, Status> {
                    answers!(@$place $package::$answer, error)
                }
            }
        )*
    };
    (@one $package:ident::$answer:ident, $error:ident) => {
        Ok($package::$answer { error: Some($error), ..Default::default() })
    };
    // As TiKV has it: a client that looks only at the pairs would find none, and no error.
    (@pairs $package:ident::$answer:ident, $error:ident) => {
        Ok($package::$answer {
            pairs: [KvPair { error: Some(Box::new($error.clone())), ..KvPair::default() }].into(),
            error: Some($error),
            ..Default::default()
        })
    };
    (@list $package:ident::$answer:ident, $error:ident) => {
        Ok($package::$answer { errors: vec![$error], ..Default::default() })
    };
    (@text $package:ident::$answer:ident, $error:ident) => {
        Ok($package::$answer { error: text($error), ..Default::default() })
    };
    (@other $package:ident::$answer:ident, $error:ident) => {
        Ok($package::$answer { other_error: text($error), ..Default::default() })
    };
    (@none $package:ident::$answer:ident, $error:ident) => {
        Err(Status::internal(text($error)))
    };
}

answers! {
    kvrpcpb::GetRequest => GetResponse, "get", one;
    kvrpcpb::BatchGetRequest => BatchGetResponse, "batch_get", pairs, keys;
    kvrpcpb::ScanRequest => ScanResponse, "scan", pairs;
    kvrpcpb::PrewriteRequest => PrewriteResponse, "prewrite", list,
        mutations, secondaries, pessimistic_actions, for_update_ts_constraints;
    kvrpcpb::CommitRequest => CommitResponse, "commit", one, keys;
    kvrpcpb::CleanupRequest => CleanupResponse, "cleanup", one;
    kvrpcpb::BatchRollbackRequest => BatchRollbackResponse, "batch_rollback", one, keys;
    kvrpcpb::PessimisticLockRequest => PessimisticLockResponse, "pessimistic_lock", list, mutations;
    kvrpcpb::PessimisticRollbackRequest => PessimisticRollbackResponse, "pessimistic_rollback", list,
        keys;
    kvrpcpb::TxnHeartBeatRequest => TxnHeartBeatResponse, "txn_heart_beat", one;
    kvrpcpb::CheckTxnStatusRequest => CheckTxnStatusResponse, "check_txn_status", one;
    kvrpcpb::CheckSecondaryLocksRequest => CheckSecondaryLocksResponse, "check_secondary_locks", one,
        keys;
    kvrpcpb::ScanLockRequest => ScanLockResponse, "scan_lock", one;
    kvrpcpb::ResolveLockRequest => ResolveLockResponse, "resolve_lock", one, txn_infos, keys;
    kvrpcpb::GcRequest => GcResponse, "gc", one;
    kvrpcpb::DeleteRangeRequest => DeleteRangeResponse, "delete_range", text;
    kvrpcpb::UnsafeDestroyRangeRequest => UnsafeDestroyRangeResponse, "unsafe_destroy_range", text;
    kvrpcpb::SplitRegionRequest => SplitRegionResponse, "split_region", none, split_keys;
    kvrpcpb::RawGetRequest => RawGetResponse, "raw_get", text;
    kvrpcpb::RawBatchGetRequest => RawBatchGetResponse, "raw_batch_get", none, keys;
    kvrpcpb::RawPutRequest => RawPutResponse, "raw_put", text;
    kvrpcpb::RawBatchPutRequest => RawBatchPutResponse, "raw_batch_put", text, pairs, ttls;
    kvrpcpb::RawDeleteRequest => RawDeleteResponse, "raw_delete", text;
    kvrpcpb::RawBatchDeleteRequest => RawBatchDeleteResponse, "raw_batch_delete", text, keys;
    kvrpcpb::RawDeleteRangeRequest => RawDeleteRangeResponse, "raw_delete_range", text;
    kvrpcpb::RawScanRequest => RawScanResponse, "raw_scan", none;
    kvrpcpb::RawBatchScanRequest => RawBatchScanResponse, "raw_batch_scan", none, ranges;
    kvrpcpb::RawGetKeyTtlRequest => RawGetKeyTtlResponse, "raw_get_key_ttl", text;
    kvrpcpb::RawCasRequest => RawCasResponse, "raw_compare_and_swap", text;
    kvrpcpb::RawCoprocessorRequest => RawCoprocessorResponse, "raw_coprocessor", text;
    coprocessor::Request => Response, "coprocessor", other, ranges;
}

#[cfg(test)]
mod tests {
    use kvrpcpb::{BatchGetRequest, CommitRequest, RawBatchPutRequest, RawPutRequest, ScanRequest};

    use super::*;

    #[test]
    fn a_call_of_a_batch_that_may_be_done_is_undetermined() {
        let failed = || Failure::from(Status::unknown("it panicked"));
        let commit = refused_in_batch::<CommitRequest>(failed());
        assert_eq!(commit.error, None);
        assert!(commit.region_error.unwrap().undetermined_result.is_some());
        let put = refused_in_batch::<RawPutRequest>(failed());
        assert_eq!(put.error, "");
        assert!(put.region_error.unwrap().undetermined_result.is_some());
        // One that was refused has surely done nothing.
        let refusal = Failure::from(Status::invalid_argument("no keys"));
        let commit = refused_in_batch::<CommitRequest>(refusal);
        assert_eq!(commit.error.unwrap().abort, "no keys");
        assert_eq!(commit.region_error, None);
    }

    #[test]
    fn a_request_takes_the_memory_of_its_elements() {
        let empty_pairs = [0x12, 0].repeat(1000);
        let request = RawBatchPutRequest::decode(&*empty_pairs).unwrap();
        assert_eq!(request.pairs.len(), 1000);
        assert!(request.memory() >= 1000 * size_of::<KvPair>());
        assert!(size_of::<KvPair>() <= 128);
    }

    #[test]
    fn an_answer_of_pairs_has_its_error_also_in_the_first_pair() {
        let failure = || Failure::abort("corruption: a record is damaged");
        let scan = refused::<ScanRequest>(failure()).unwrap();
        let batch = refused_in_batch::<BatchGetRequest>(failure());
        let scanned = scan.pairs.decoded().unwrap();
        for (error, pairs) in [(scan.error, scanned), (batch.error, batch.pairs)] {
            assert!(error.is_some());
            let first = KvPair {
                error: error.map(Box::new),
                ..KvPair::default()
            };
            assert_eq!(pairs, [first]);
        }
    }
}
