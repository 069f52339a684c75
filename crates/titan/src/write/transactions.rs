//! Which operations of WAL files take effect, and with which sequence numbers, where RocksDB wrote
//! transactions into them.
//!
//! For a transaction that is prepared before it is committed, a batch has the operations between
//! markers, and a later batch, maybe in another file, has a marker that commits it or rolls it
//! back. RocksDB has three policies:
//!
//! * *write-committed*: the operations take effect with the marker that commits them, and take the
//!   sequence numbers from there on. Until then they take none.
//! * *write-prepared* and *write-unprepared*: the operations are in memtables, and soon in tables,
//!   from the moment they are logged; the marker decides whether readers may see them. The versions
//!   that a rollback restores come before its marker, as ordinary operations. All operations of a
//!   batch share one sequence number, also in batches without transactions; where a key occurs
//!   again in a batch, the next number begins.
//!
//! Applying an undecided transaction, or leaving it out, would be wrong either way, and in tables
//! its operations cannot be told from others. So a replay must refuse it.

use std::collections::{BTreeMap, BTreeSet};

use crate::batch::{BatchOp, BatchOps, BatchView};
use crate::error::{Error, Result};
use crate::format::{ColumnFamilyId, SequenceNumber};

/// Numbering of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// Each takes a number: in Titan, and in RocksDB except under two policies.
    #[default]
    Operations,
    /// Those of a batch share one: write-prepared and write-unprepared.
    Batches,
}

/// The transactions of a database while its WAL files are replayed; remembers those that are
/// prepared and not decided.
#[derive(Debug, Default)]
pub struct Transactions {
    numbering: Numbering,
    /// By name: the encoded operations, except those that took effect at once.
    prepared: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Transactions {
    pub fn new(numbering: Numbering) -> Self {
        Transactions {
            numbering,
            ..Transactions::default()
        }
    }

    /// Calls `take` with each operation that takes effect with this batch, and its sequence number.
    /// Returns the number after the last one that the batch takes.
    ///
    /// # Errors
    /// `Corruption` for markers that make no sense, `Unsupported` for those of transactions with
    /// timestamps, and failures of `take`.
    pub fn apply(
        &mut self,
        batch: &BatchView<'_>,
        take: &mut dyn FnMut(SequenceNumber, &BatchOp<'_>) -> Result<()>,
    ) -> Result<SequenceNumber> {
        let mut numbers = Numbers::new(self.numbering, batch.sequence());
        let mut ops = batch.ops();
        // Where the operations of a transaction begin.
        let mut section = None;
        loop {
            let at = ops.position();
            let Some(op) = ops.next() else {
                break;
            };
            let op = op?;
            match (op, section) {
                (
                    BatchOp::BeginPrepare
                    | BatchOp::BeginPersistedPrepare
                    | BatchOp::BeginUnprepare,
                    None,
                ) => section = Some(ops.position()),
                (BatchOp::EndPrepare { xid }, Some(start)) => {
                    let held = match self.numbering {
                        Numbering::Operations => batch.encoded(start..at).to_vec(),
                        Numbering::Batches => Vec::new(),
                    };
                    self.prepared.insert(xid.to_vec(), held);
                    section = None;
                    numbers.end_batch();
                }
                (BatchOp::Commit { xid }, None) => {
                    // One that is unknown was prepared in a file that is gone: its operations
                    // are in tables.
                    let held = self.prepared.remove(xid).unwrap_or_default();
                    for op in BatchOps::new(&held) {
                        let op = op?;
                        if let Some(number) = numbers.of(&op)? {
                            take(number, &op)?;
                        }
                    }
                    numbers.end_batch();
                }
                (BatchOp::Rollback { xid }, None) => {
                    self.prepared.remove(xid);
                    numbers.end_batch();
                }
                (BatchOp::CommitWithTimestamp { .. }, None) => {
                    return Err(Error::unsupported("a transaction with a timestamp"));
                }
                // After operations, the end of a batch that was joined with others.
                (BatchOp::Noop, None) => numbers.end_operations(),
                (
                    BatchOp::BeginPrepare
                    | BatchOp::BeginPersistedPrepare
                    | BatchOp::BeginUnprepare
                    | BatchOp::EndPrepare { .. }
                    | BatchOp::Commit { .. }
                    | BatchOp::CommitWithTimestamp { .. }
                    | BatchOp::Rollback { .. },
                    _,
                ) => return Err(misplaced()),
                (_, Some(_)) if self.numbering == Numbering::Operations => {}
                (op, _) => {
                    if let Some(number) = numbers.of(&op)? {
                        take(number, &op)?;
                    }
                }
            }
        }
        match section {
            None => Ok(numbers.end()),
            Some(_) => Err(misplaced()),
        }
    }

    /// Refuses transactions that are prepared and not decided.
    ///
    /// # Errors
    /// `Unsupported` with the names.
    pub(crate) fn require_decided(&self) -> Result<()> {
        const SHOWN: usize = 5;
        if self.prepared.is_empty() {
            return Ok(());
        }
        let names = self.prepared.keys().take(SHOWN);
        let names: Vec<_> = names
            .map(|name| format!("'{}'", name.escape_ascii()))
            .collect();
        let more = match self.prepared.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Err(Error::unsupported(format!(
            "transactions that are neither committed nor rolled back: {}{more}; decide them with \
             the program that began them",
            names.join(", ")
        )))
    }
}

/// Facts about the batches in WAL files before they are replayed.
#[derive(Debug, Default)]
pub(crate) struct Census {
    transactions: Transactions,
    /// There were markers of write-committed.
    has_held: bool,
    /// There were markers of the other policies, or fewer numbers than operations.
    at_once: bool,
    /// There were markers that all policies have.
    decided: bool,
}

impl Census {
    /// Looks at the next batch of a file. `expected` is the result for the previous batch of that
    /// file.
    ///
    /// # Errors
    /// As [`Transactions::apply`].
    pub(crate) fn add(
        &mut self,
        batch: &BatchView<'_>,
        expected: Option<SequenceNumber>,
    ) -> Result<SequenceNumber> {
        for op in batch.ops() {
            match op? {
                BatchOp::BeginPrepare => self.has_held = true,
                BatchOp::BeginPersistedPrepare | BatchOp::BeginUnprepare => self.at_once = true,
                BatchOp::Commit { .. } | BatchOp::Rollback { .. } => self.decided = true,
                _ => {}
            }
        }
        self.at_once |= expected.is_some_and(|expected| batch.sequence() < expected);
        self.transactions.apply(batch, &mut |_, _| Ok(()))
    }

    /// Whether there is anything but ordinary batches.
    pub(crate) fn has_transactions(&self) -> bool {
        self.has_held || self.at_once || self.decided
    }

    /// Numbering of the operations, once all batches have been added.
    ///
    /// # Errors
    /// `Unsupported` for transactions that are not decided, and for files of several policies:
    /// RocksDB writes none.
    pub(crate) fn finish(&self) -> Result<Numbering> {
        self.transactions.require_decided()?;
        match (self.has_held, self.at_once) {
            (true, true) => {
                let message = "WAL files with transactions of more than one write policy";
                Err(Error::unsupported(message))
            }
            (_, true) => Ok(Numbering::Batches),
            _ => Ok(Numbering::Operations),
        }
    }
}

fn misplaced() -> Error {
    Error::corruption("a transaction marker in the wrong place")
}

/// Gives operations their numbers.
struct Numbers {
    numbering: Numbering,
    next: SequenceNumber,
    /// Keys that have taken the number `next` already.
    keys: BTreeSet<(ColumnFamilyId, Vec<u8>)>,
}

impl Numbers {
    fn new(numbering: Numbering, next: SequenceNumber) -> Self {
        Numbers {
            numbering,
            next,
            keys: BTreeSet::new(),
        }
    }

    /// The number of an operation; `None` for those that take none.
    fn of(&mut self, op: &BatchOp<'_>) -> Result<Option<SequenceNumber>> {
        let Some(family) = op.column_family() else {
            return Ok(None);
        };
        let number = match self.numbering {
            Numbering::Operations => {
                let number = self.next;
                self.next = number.plus(1);
                number
            }
            Numbering::Batches => {
                let key = op
                    .entry()?
                    .map_or_else(Vec::new, |(_, key, _)| key.to_vec());
                if !self.keys.insert((family, key.clone())) {
                    self.end_batch();
                    self.keys.insert((family, key));
                }
                self.next
            }
        };
        match number <= SequenceNumber::MAX {
            true => Ok(Some(number)),
            false => Err(Error::corruption(
                "a transaction exceeds the sequence numbers",
            )),
        }
    }

    /// Ends a batch: operations that follow belong to another one in the same record.
    fn end_batch(&mut self) {
        if self.numbering == Numbering::Batches {
            // A marker alone takes a number, too; no operation has it, so that makes no difference.
            self.keys.clear();
            self.next = self.next.plus(1);
        }
    }

    /// As [`Numbers::end_batch`], if there were operations.
    fn end_operations(&mut self) {
        if !self.keys.is_empty() {
            self.end_batch();
        }
    }

    /// The number after the last one.
    fn end(mut self) -> SequenceNumber {
        self.end_operations();
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &[u8] = &[0x09];
    const BEGIN_PERSISTED: &[u8] = &[0x12];
    const NOOP: &[u8] = &[0x0d];

    fn named(tag: u8, name: &str) -> Vec<u8> {
        [&[tag, name.len() as u8], name.as_bytes()].concat()
    }

    fn end_prepare(name: &str) -> Vec<u8> {
        named(0x0a, name)
    }

    fn commit(name: &str) -> Vec<u8> {
        named(0x0b, name)
    }

    fn rollback(name: &str) -> Vec<u8> {
        named(0x0c, name)
    }

    /// A deletion in the default family.
    fn delete(key: &str) -> Vec<u8> {
        named(0x00, key)
    }

    fn batch(sequence: u64, operations: &[&[u8]]) -> Vec<u8> {
        let count = operations.iter().filter(|op| op[0] == 0x00).count() as u32;
        let header = [&sequence.to_le_bytes()[..], &count.to_le_bytes()].concat();
        [header, operations.concat()].concat()
    }

    /// Operations that take effect, and the number after them.
    fn applied(transactions: &mut Transactions, record: &[u8]) -> Result<(Vec<String>, u64)> {
        let mut found = Vec::new();
        let batch = BatchView::parse_whole(record)?;
        let next = transactions.apply(&batch, &mut |sequence, op| {
            let (_, key, _) = op.entry()?.unwrap();
            found.push(format!("{}@{}", key.escape_ascii(), sequence.0));
            Ok(())
        })?;
        Ok((found, next.0))
    }

    fn assert_applied(transactions: &mut Transactions, record: &[u8], keys: &str, next: u64) {
        let (found, found_next) = applied(transactions, record).unwrap();
        assert_eq!((found.join(" ").as_str(), found_next), (keys, next));
    }

    #[test]
    fn held_operations_take_effect_with_their_commit() {
        let t = &mut Transactions::new(Numbering::Operations);
        let prepared = [BEGIN, &delete("b"), &delete("c"), &end_prepare("x")];
        let (a, d) = (delete("a"), delete("d"));
        let around = [&[&a[..]], &prepared[..], &[&d[..]]].concat();
        assert_applied(t, &batch(10, &around), "a@10 d@11", 12);
        let dropped = [BEGIN, &delete("never"), &end_prepare("y")];
        assert_applied(t, &batch(12, &dropped), "", 12);
        let e = t.require_decided().unwrap_err();
        assert_eq!(e.kind(), crate::ErrorKind::Unsupported);
        assert!(e.message().contains("'x', 'y'"), "{e}");
        let decided = [
            &delete("e")[..],
            &commit("x"),
            &delete("f"),
            &rollback("y"),
            &commit("unknown"),
        ];
        assert_applied(t, &batch(12, &decided), "e@12 b@13 c@14 f@15", 16);
        t.require_decided().unwrap();
    }

    #[test]
    fn operations_of_a_batch_share_a_number() {
        let t = &mut Transactions::new(Numbering::Batches);
        // Joined: a batch of two operations, one with a key again, a prepared one.
        let joined = [
            NOOP,
            &delete("a"),
            &delete("b"),
            NOOP,
            &delete("a"),
            &delete("a"),
            &delete("b"),
            NOOP,
            BEGIN_PERSISTED,
            &delete("c"),
            &end_prepare("x"),
        ];
        let keys = "a@10 b@10 a@11 a@12 b@12 c@13";
        assert_applied(t, &batch(10, &joined), keys, 14);
        assert!(t.require_decided().is_err());
        let restored = [&delete("c")[..], &rollback("x"), &delete("d")];
        assert_applied(t, &batch(14, &restored), "c@14 d@15", 16);
        t.require_decided().unwrap();
    }

    #[test]
    fn markers_that_make_no_sense_are_corruption() {
        let cases: [&[&[u8]]; 5] = [
            &[BEGIN, &delete("a")],
            &[BEGIN, BEGIN],
            &[&end_prepare("x")],
            &[BEGIN, &commit("x"), &end_prepare("y")],
            &[BEGIN_PERSISTED, &rollback("x")],
        ];
        for operations in cases {
            for numbering in [Numbering::Operations, Numbering::Batches] {
                let t = &mut Transactions::new(numbering);
                let e = applied(t, &batch(1, operations)).unwrap_err();
                assert!(e.is_corruption(), "{operations:?}: {e}");
            }
        }
    }

    #[test]
    fn a_census_finds_the_numbering() {
        let numbering = |records: &[Vec<u8>]| {
            let mut census = Census::default();
            let mut expected = None;
            for record in records {
                let batch = BatchView::parse_whole(record).unwrap();
                expected = Some(census.add(&batch, expected).unwrap());
            }
            (census.has_transactions(), census.finish())
        };
        let two = |sequence| batch(sequence, &[&delete("a"), &delete("b"), NOOP]);
        let (any, found) = numbering(&[two(5), two(7), two(9)]);
        assert_eq!((any, found.unwrap()), (false, Numbering::Operations));
        let (any, found) = numbering(&[two(5), two(6), two(7)]);
        assert_eq!((any, found.unwrap()), (true, Numbering::Batches));
        let prepared = batch(9, &[BEGIN, &delete("c"), &end_prepare("x")]);
        let (any, found) = numbering(&[two(7), prepared.clone(), batch(9, &[&commit("x")])]);
        assert_eq!((any, found.unwrap()), (true, Numbering::Operations));
        let (_, found) = numbering(&[two(7), prepared.clone()]);
        assert_eq!(found.unwrap_err().kind(), crate::ErrorKind::Unsupported);
        let (_, found) = numbering(&[prepared, batch(9, &[&commit("x")]), two(9)]);
        assert_eq!(found.unwrap_err().kind(), crate::ErrorKind::Unsupported);
    }
}
