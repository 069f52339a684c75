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
            let timestamp = match at {
                None => source.hold_present()?,
                Some(_) => {
                    let timestamp = source.timestamp(at)?;
                    source.hold(timestamp)?;
                    timestamp
                }
            };
            let header = Header {
                timestamp,
                asked: at.unwrap_or(timestamp),
                age: source.age(),
                is_resumable: source.is_resumable(),
                source: source.name(),
                range: range.clone(),
            };
            let writer = found.begin(&header)?;
            (header, writer)
        }
        Some(header) => {
            check_same(&header, source, &range, at).map_err(|e| e.in_file(file))?;
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
    // ORDER: before the end mark, which says that nothing is missing.
    source.check_hold()?;
    let (summary, length) = writer.finish()?;
    Ok(Exported {
        timestamp: header.timestamp,
        summary,
        kept,
        length,
    })
}

/// Checks that an interrupted export is the wanted one, and can go on.
fn check_same(
    header: &Header,
    source: &dyn Side,
    range: &KeyRange,
    at: Option<Timestamp>,
) -> Result<()> {
    let refused = |what: String| {
        let what = format!("the file is an interrupted export {what}; delete it to begin anew");
        Err(Error::invalid_argument(what))
    };
    let name = source.name();
    if header.source != name {
        return refused(format!("of {}, not of {name}", header.source));
    }
    if header.range != *range {
        return refused("of another range of keys".to_owned());
    }
    if at.is_some_and(|at| at != header.asked && at != header.timestamp) {
        return refused(format!("as of {}", header.timestamp));
    }
    if !header.is_resumable {
        let what = "of a store that was in use: it cannot go on";
        return refused(what.to_owned());
    }
    if source.age() < header.age {
        let what = "of a later state of the source, which an earlier one has replaced";
        return refused(what.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bytes::Bytes;

    use super::*;
    use crate::transfer::format::Reader;
    use crate::transfer::pairs::Pair;
    use crate::transfer::sides::{Pairs, Transaction};

    /// A source of three pairs.
    struct Source {
        age: u64,
        /// Whether the versions at the timestamp were kept.
        is_held: bool,
    }

    impl Default for Source {
        fn default() -> Self {
            Source {
                age: 7,
                is_held: true,
            }
        }
    }

    impl Source {
        fn export(&mut self, file: &Path, at: Option<u64>) -> Result<Exported> {
            let at = at.map(Timestamp);
            run(self, file, KeyRange::default(), at, &ProgressBar::hidden())
        }
    }

    impl Side for Source {
        fn name(&self) -> String {
            "source of a test".to_owned()
        }

        fn age(&self) -> u64 {
            self.age
        }

        fn is_resumable(&self) -> bool {
            true
        }

        /// The present is 100.
        fn timestamp(&self, at: Option<Timestamp>) -> Result<Timestamp> {
            match at {
                Some(at) if at > Timestamp(1000) => Err(Error::invalid_argument("in the future")),
                at => Ok(at.unwrap_or(Timestamp::MAX).min(Timestamp(100))),
            }
        }

        fn hold(&mut self, _: Timestamp) -> Result<()> {
            Ok(())
        }

        fn check_hold(&self) -> Result<()> {
            match self.is_held {
                true => Ok(()),
                false => Err(Error::invalid_argument("before the safe point")),
            }
        }

        fn scan<'a>(&'a self, _: Timestamp, range: KeyRange) -> Result<Pairs<'a>> {
            let pair = |key: &'static str| Pair {
                key: key.into(),
                value: Bytes::from(key.repeat(400_000)),
            };
            let pairs = ["a", "b", "c"].map(pair).into_iter();
            Ok(Box::new(
                pairs.filter(move |pair| range.contains(&pair.key)).map(Ok),
            ))
        }

        fn begin<'a>(&'a self) -> Result<Box<dyn Transaction + 'a>> {
            Err(Error::unsupported("a source"))
        }

        fn close(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }

    /// The file of an export that was cut in its last block.
    fn interrupted(dir: &Path, source: &mut Source, at: Option<u64>) -> std::path::PathBuf {
        let file = dir.join("x");
        let length = source.export(&file, at).unwrap().length;
        let whole = fs::read(&file).unwrap();
        fs::write(&file, &whole[..length as usize - 70]).unwrap();
        file
    }

    #[test]
    fn an_export_whose_hold_was_lost_has_no_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        let mut source = Source {
            is_held: false,
            ..Source::default()
        };
        assert!(source.export(&file, None).is_err());
        let mut reader = Reader::open(&file).unwrap();
        while let Ok(block) = reader.next_block() {
            assert!(block.is_some());
        }
        source.is_held = true;
        assert_eq!(source.export(&file, None).unwrap().summary.pairs, 3);
    }

    #[test]
    fn the_same_command_goes_on_whichever_timestamp_it_gives() {
        let dir = tempfile::tempdir().unwrap();
        let mut source = Source::default();
        for (first, again, goes_on) in [
            (None, None, true),
            (None, Some(100), true),
            (Some(500), Some(500), true),
            (Some(500), Some(100), true),
            (Some(500), None, true),
            (Some(500), Some(501), false),
            (Some(50), Some(50), true),
            (Some(50), Some(100), false),
            (None, Some(500), false),
        ] {
            let file = interrupted(dir.path(), &mut source, first);
            let went_on = source.export(&file, again);
            assert_eq!(went_on.is_ok(), goes_on, "{first:?}, {again:?}");
            fs::remove_file(file).unwrap();
        }
    }

    #[test]
    fn an_export_does_not_go_on_with_an_earlier_state_of_its_source() {
        let dir = tempfile::tempdir().unwrap();
        let mut source = Source::default();
        let file = interrupted(dir.path(), &mut source, None);
        source.age = 6;
        let said = source.export(&file, None).err().unwrap().to_string();
        assert!(said.contains("an earlier one has replaced"), "{said}");
        source.age = 8;
        assert_eq!(source.export(&file, None).unwrap().summary.pairs, 3);
    }

    #[test]
    fn a_wrong_timestamp_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        let mut source = Source::default();
        assert!(source.export(&file, Some(2000)).is_err());
        assert!(!file.exists());
    }
}
