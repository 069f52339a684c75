//! The moment at which a client gives up.

use std::time::{Duration, Instant};

use tonic::metadata::MetadataMap;

use crate::proto::kvrpcpb::Context;

/// The moment that the transport's `grpc-timeout` names: digits and a unit.
pub(crate) fn of_metadata(metadata: &MetadataMap) -> Option<Instant> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok()?;
    let time = match unit {
        "H" => Duration::from_secs(count.saturating_mul(3600)),
        "M" => Duration::from_secs(count.saturating_mul(60)),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    };
    Instant::now().checked_add(time)
}

/// The earlier of a moment and the one that the call itself names.
pub(crate) fn earlier(deadline: Option<Instant>, context: Option<&Context>) -> Option<Instant> {
    let millis = context.map_or(0, |context| context.max_execution_duration_ms);
    let own = match millis {
        0 => None,
        millis => Instant::now().checked_add(Duration::from_millis(millis)),
    };
    deadline.into_iter().chain(own).min()
}
