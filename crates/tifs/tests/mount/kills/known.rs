//! The possible content of a file after a kill.

use std::ops::Range;

/// The bytes that a file had when it was made durable, and those that were written since then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    durable: Vec<u8>,
    /// Ranges that were filled with a byte.
    later: Vec<(Range<usize>, u8)>,
}

impl Content {
    /// Bytes as the last operation left them.
    pub fn len(&self) -> usize {
        let ends = self.later.iter().map(|(range, _)| range.end);
        ends.fold(self.durable.len(), usize::max)
    }

    pub fn write(&mut self, range: Range<usize>, byte: u8) {
        self.later.push((range, byte));
    }

    /// All that was written is durable.
    pub fn sync(&mut self) {
        for (range, byte) in std::mem::take(&mut self.later) {
            if self.durable.len() < range.end {
                self.durable.resize(range.end, 0);
            }
            self.durable[range].fill(byte);
        }
    }

    /// The new size is durable; what was written before it is as durable as it was.
    pub fn resize(&mut self, length: usize) {
        self.durable.resize(length, 0);
        for (range, _) in &mut self.later {
            range.end = range.end.min(length);
        }
        self.later.retain(|(range, _)| !range.is_empty());
    }

    /// The hole is durable. The size stays, and is as durable as it was.
    pub fn punch(&mut self, hole: Range<usize>) {
        let end = hole.end.min(self.durable.len());
        if hole.start < end {
            self.durable[hole.start..end].fill(0);
        }
        let split = |(range, byte): (Range<usize>, u8)| {
            let (start, end) = (
                hole.start.clamp(range.start, range.end),
                hole.end.clamp(range.start, range.end),
            );
            [
                (range.start..start, byte),
                (start..end, 0),
                (end..range.end, byte),
            ]
        };
        let all = std::mem::take(&mut self.later).into_iter();
        self.later = all.flat_map(split).collect();
        self.later.retain(|(range, _)| !range.is_empty());
    }

    /// Says what is wrong with the content that was found, if it is neither what was durable nor
    /// what was written later, byte by byte.
    pub fn judge(&self, found: &[u8]) -> Result<(), String> {
        let lengths = self.durable.len()..=self.len();
        if !lengths.contains(&found.len()) {
            return Err(format!("{} bytes instead of {lengths:?}", found.len()));
        }
        let durable = |at| self.durable.get(at).copied().unwrap_or(0);
        let mut possible: Vec<bool> = (0..found.len())
            .map(|at| found[at] == durable(at))
            .collect();
        for (range, byte) in &self.later {
            for at in range.start..range.end.min(found.len()) {
                possible[at] |= found[at] == *byte;
            }
        }
        if let Some(at) = possible.iter().position(|possible| !possible) {
            return Err(format!(
                "byte {at} is {} instead of {}",
                found[at],
                durable(at)
            ));
        }
        Ok(())
    }

    /// Takes the found state as the known one.
    pub fn settle(&mut self, found: Vec<u8>) {
        self.durable = found;
        self.later.clear();
    }
}

#[test]
fn content_that_cannot_be_is_found() {
    let mut content = Content::default();
    content.write(0..4, 1);
    content.sync();
    content.write(2..6, 2);
    for possible in [
        b"\x01\x01\x01\x01".as_slice(),
        b"\x01\x01\x02\x01\0",
        b"\x01\x01\x02\x02\x02\x02",
    ] {
        assert_eq!(content.judge(possible), Ok(()));
    }
    for impossible in [
        b"\x01\x01\x01".as_slice(),
        b"\x02\x01\x01\x01",
        b"\x01\x01\0\x01",
        b"\x01\x01\x01\x01\0\0\0",
    ] {
        assert!(content.judge(impossible).is_err());
    }
    content.punch(3..5);
    assert!(content.judge(b"\x01\x01\x02\x02").is_err());
    assert_eq!(content.judge(b"\x01\x01\x02\0\0\x02"), Ok(()));
    content.resize(3);
    assert_eq!(content.judge(b"\x01\x01\x01"), Ok(()));
    assert!(content.judge(b"\x01\x01\x01\0").is_err());
}
