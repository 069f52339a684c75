//! From a file to a target.
//!
//! The target's range is to have the pairs of the export, and no others. It is compared with the
//! file before anything is written, which reads the whole file and finds all damage. Then each
//! block is compared again within a transaction, which writes the differences. So an interrupted
//! import goes on when it is run again. At last the range is read as of one timestamp, and its
//! count and checksum are compared with those of the file.

use std::path::Path;

use bytes::Bytes;
use indicatif::ProgressBar;
use titan::{Error, ErrorKind, Result};
use titan_mvcc::Timestamp;

use super::differences::{Difference, Differences};
use super::format::{Header, Reader};
use super::pairs::{KeyRange, Pair, Summary, Totals};
use super::sides::Side;
use crate::keys;

/// A transaction with as many bytes of keys and values gets no more.
const TRANSACTION_BYTES: u64 = 1 << 20;
/// The most keys of a transaction.
const TRANSACTION_KEYS: u64 = 4096;

/// The comparison of a target with an export.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    /// Pairs of both.
    pub(crate) same: u64,
    /// Keys that the target lacks.
    pub(crate) missing: u64,
    /// Keys with another value in the target.
    pub(crate) other: u64,
    /// Keys that only the target has.
    pub(crate) extra: u64,
    /// The first key that differs.
    pub(crate) first: Option<Bytes>,
    /// The first key that the target has otherwise, or only the target has.
    first_foreign: Option<Bytes>,
}

impl Comparison {
    fn add(&mut self, difference: &Difference) {
        let count = match difference {
            Difference::Missing(_) => &mut self.missing,
            Difference::Other(_) => &mut self.other,
            Difference::Extra(_) => &mut self.extra,
        };
        *count += 1;
        let key = difference.key();
        self.first.get_or_insert_with(|| key.clone());
        if !matches!(difference, Difference::Missing(_)) {
            self.first_foreign.get_or_insert_with(|| key.clone());
        }
    }
}

/// An export with the progress of reading it.
pub(crate) struct Source<'a> {
    path: &'a Path,
    pub(crate) header: Header,
    /// The length of the file in bytes.
    pub(crate) length: u64,
}

impl<'a> Source<'a> {
    /// Opens an export.
    ///
    /// # Errors
    /// Those of [`Reader::open`].
    pub(crate) fn open(path: &'a Path) -> Result<Self> {
        let reader = Reader::open(path)?;
        Ok(Source {
            path,
            header: reader.header().clone(),
            length: reader.length(),
        })
    }

    /// Reads the whole file, and so finds all damage.
    ///
    /// # Errors
    /// Those of [`Reader::next_block`].
    pub(crate) fn check(&self, bar: &ProgressBar) -> Result<()> {
        self.for_each_part(bar, |_, _| Ok(())).map(drop)
    }

    /// Compares a target with the export as of one timestamp. Reads the whole file.
    ///
    /// # Errors
    /// Those of [`Reader::next_block`] and of the target.
    pub(crate) fn compare(
        &self,
        target: &mut dyn Side,
        bar: &ProgressBar,
    ) -> Result<(Comparison, Summary)> {
        let at = target.hold_present()?;
        let mut comparison = Comparison::default();
        let summary = self.for_each_part(bar, |pairs, range| {
            let mut differences = Differences::new(pairs, target.scan(at, range)?);
            for difference in differences.by_ref() {
                comparison.add(&difference?);
            }
            comparison.same += differences.same;
            Ok(())
        })?;
        target.check_hold()?;
        Ok((comparison, summary))
    }

    /// Makes the target's range equal to the export, from a key on, where they differ. Without
    /// `overwrite` it only adds pairs.
    ///
    /// # Errors
    /// `Conflict` if other clients write to the range; those of the file and of the target.
    pub(crate) fn write(
        &self,
        target: &dyn Side,
        from: &Bytes,
        overwrite: bool,
        bar: &ProgressBar,
    ) -> Result<()> {
        self.for_each_part(bar, |pairs, range| {
            let is_equal = range.to.as_ref().is_some_and(|to| to <= from);
            match is_equal {
                true => Ok(()),
                false => write_part(target, pairs, range, overwrite),
            }
        })?;
        Ok(())
    }

    /// Calls a function with the pairs of each block and the range from the block before to its
    /// last key; at last with no pairs and the rest of the range. Returns count and checksum of the
    /// export.
    fn for_each_part(
        &self,
        bar: &ProgressBar,
        mut each: impl FnMut(&[Pair], KeyRange) -> Result<()>,
    ) -> Result<Summary> {
        let mut reader = Reader::open(self.path)?;
        let mut rest = self.header.range.clone();
        bar.set_position(0);
        while let Some(pairs) = reader.next_block()? {
            let Some(last) = pairs.last() else {
                continue;
            };
            if !pairs.iter().all(|pair| rest.contains(&pair.key)) {
                let what = "the export has a key outside of its range";
                return Err(Error::corruption(what).at(self.path, reader.offset()));
            }
            each(&pairs, rest.through(&last.key))?;
            rest = rest.behind(&last.key);
            bar.set_position(reader.offset());
        }
        if !rest.is_empty() {
            each(&[], rest)?;
        }
        bar.set_position(reader.offset());
        Ok(reader.summary())
    }
}

/// Refuses to change pairs of a target that are not those of an export.
///
/// # Errors
/// `AlreadyExists` with the first such key.
pub(crate) fn refuse_foreign(comparison: &Comparison) -> Result<()> {
    let Some(key) = &comparison.first_foreign else {
        return Ok(());
    };
    Err(Error::new(
        ErrorKind::AlreadyExists,
        format!(
            "the target has {} other keys and {} other values in the range of the export, the first at {}; \
             --overwrite makes the range equal to the export",
            comparison.extra,
            comparison.other,
            keys::escaped(key)
        ),
    ))
}

/// Writes the differences of a part of the range, in transactions that read the pairs that they
/// replace.
fn write_part(
    target: &dyn Side,
    mut pairs: &[Pair],
    mut range: KeyRange,
    overwrite: bool,
) -> Result<()> {
    loop {
        let mut transaction = target.begin()?;
        let found = target.scan(transaction.start(), range.clone())?;
        let (mut keys, mut bytes) = (0, 0);
        let mut last = None;
        for difference in Differences::new(pairs, found) {
            let difference = difference?;
            match &difference {
                Difference::Missing(_) => {}
                _ if overwrite => {}
                Difference::Other(_) | Difference::Extra(_) => return Err(written_by_others()),
            }
            match &difference {
                Difference::Missing(pair) | Difference::Other(pair) => {
                    transaction.put(pair)?;
                    bytes += pair.bytes();
                }
                Difference::Extra(key) => {
                    transaction.delete(key)?;
                    bytes += key.len() as u64;
                }
            }
            keys += 1;
            if keys == TRANSACTION_KEYS || bytes >= TRANSACTION_BYTES {
                last = Some(difference.key().clone());
                break;
            }
        }
        if keys > 0 {
            let committed = transaction.commit();
            committed.map_err(|e| e.context("the import stopped; run again, it goes on"))?;
        }
        let Some(last) = last else {
            return Ok(());
        };
        range = range.behind(&last);
        pairs = &pairs[pairs.partition_point(|pair| pair.key <= last)..];
    }
}

/// Reads a range of a target as of one timestamp, and compares count and checksum with those of an
/// export. Returns the timestamp.
///
/// # Errors
/// `Conflict` if they differ; those of the target.
pub(crate) fn verify(
    target: &mut dyn Side,
    range: &KeyRange,
    expected: &Summary,
    bar: &ProgressBar,
) -> Result<Timestamp> {
    let at = target.hold_present()?;
    let mut totals = Totals::default();
    for pair in target.scan(at, range.clone())? {
        let pair = pair?;
        totals.add(&pair);
        bar.inc(pair.bytes());
    }
    target.check_hold()?;
    match totals.summary() == *expected {
        true => Ok(at),
        false => Err(written_by_others()),
    }
}

fn written_by_others() -> Error {
    let what = "the target differs from the export: other clients write to its range";
    Error::new(ErrorKind::Conflict, what)
}
