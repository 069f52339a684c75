//! From a source to a file.

use std::path::Path;

use indicatif::ProgressBar;
use titan::{Error, ErrorKind, Result};
use titan_mvcc::Timestamp;

use super::format::{Found, Header};
use super::pairs::{KeyRange, Summary};
use super::sides::Side;

/// A finished export.
pub(crate) struct Exported {
    pub(crate) timestamp: Timestamp,
    pub(crate) summary: Summary,
    /// Pairs that an earlier, interrupted run has exported.
    pub(crate) kept: u64,
    /// The length of the file in bytes.
    pub(crate) length: u64,
}

/// Exports a range to a file, as of a timestamp or as of now. Goes on with an interrupted export of
/// the same range of the same source, as of its timestamp.
///
/// # Errors
/// `InvalidArgument` if the file is an interrupted export of something else, or one that cannot go
/// on; those of [`Found::open`] and of the source.
pub(crate) fn run(
    source: &mut dyn Side,
    file: &Path,
    range: KeyRange,
    at: Option<Timestamp>,
    bar: &ProgressBar,
) -> Result<Exported> {
    let found = Found::open(file)?;
    let (header, mut writer) = match found.header().cloned() {
        None => {
            let timestamp = source.timestamp(at)?;
            source.hold(timestamp)?;
            let header = Header {
                timestamp,
                is_resumable: source.is_resumable(),
                source: source.name(),
                range: range.clone(),
            };
            let writer = found.begin(&header)?;
            (header, writer)
        }
        Some(header) => {
            let wanted = Header {
                timestamp: at.unwrap_or(header.timestamp),
                is_resumable: header.is_resumable,
                source: source.name(),
                range: range.clone(),
            };
            check_same(&header, &wanted).map_err(|e| e.in_file(file))?;
            source.hold(header.timestamp).map_err(|e| match e.kind() {
                ErrorKind::InvalidArgument => {
                    e.context("the export cannot go on, delete its file and begin anew")
                }
                _ => e,
            })?;
            (header, found.go_on()?)
        }
    };
    let rest = match writer.last_key() {
        None => range,
        Some(last) => range.behind(last),
    };
    let kept = writer.pairs();
    for pair in source.scan(header.timestamp, rest)? {
        let pair = pair?;
        writer.add(&pair)?;
        bar.inc(pair.bytes());
    }
    let (summary, length) = writer.finish()?;
    Ok(Exported {
        timestamp: header.timestamp,
        summary,
        kept,
        length,
    })
}

/// Checks that an interrupted export is the wanted one, and can go on.
fn check_same(header: &Header, wanted: &Header) -> Result<()> {
    let refused = |what: String| {
        let what = format!("the file is an interrupted export {what}; delete it to begin anew");
        Err(Error::invalid_argument(what))
    };
    if header.source != wanted.source {
        return refused(format!("of {}, not of {}", header.source, wanted.source));
    }
    if header.range != wanted.range {
        return refused("of another range of keys".to_owned());
    }
    if header.timestamp != wanted.timestamp {
        return refused(format!("as of {}", header.timestamp));
    }
    if !header.is_resumable {
        let what = "of a store that was in use: it cannot go on";
        return refused(what.to_owned());
    }
    Ok(())
}
