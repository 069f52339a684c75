//! The headers of requests to the placement driver, and of its answers.

use tonic::Status;

use crate::node::Shared;
use crate::proto::pdpb::{self, ErrorType, RequestHeader, ResponseHeader};

/// The number of the only member.
pub(super) const MEMBER_ID: u64 = 1;

/// The header of an answer.
pub(super) fn header(shared: &Shared) -> Option<ResponseHeader> {
    Some(ResponseHeader {
        cluster_id: shared.cluster_id,
        error: None,
    })
}

/// The header of an answer with an error.
pub(super) fn header_with(
    shared: &Shared,
    kind: ErrorType,
    message: String,
) -> Option<ResponseHeader> {
    Some(ResponseHeader {
        cluster_id: shared.cluster_id,
        error: Some(pdpb::Error {
            r#type: kind.into(),
            message,
        }),
    })
}

/// Refuses the client of another cluster.
pub(super) fn check_cluster(shared: &Shared, header: Option<&RequestHeader>) -> Result<(), Status> {
    let (asked, own) = (
        header.map_or(0, |header| header.cluster_id),
        shared.cluster_id,
    );
    match asked == own {
        true => Ok(()),
        false => Err(Status::failed_precondition(format!(
            "mismatch cluster id, need {own} but got {asked}"
        ))),
    }
}
