//! Rows in memory, to be sorted.

use std::cmp::Ordering;
use std::sync::Arc;

use titan::{BytewiseComparator, Comparator};

/// Length of the value of a row that has none.
const NO_VALUE: u32 = u32::MAX;

/// The place of a row in the bytes of a part.
#[derive(Clone, Copy)]
struct Row {
    /// The first bytes of the key, which decide most comparisons.
    prefix: u64,
    /// The place of the key; later rows have later places.
    at: usize,
    key: u32,
    value: u32,
}

/// Rows in the order in which they came.
pub(super) struct Part {
    order: Arc<dyn Comparator>,
    is_bytewise: bool,
    /// Keys, each with its value after it.
    bytes: Vec<u8>,
    rows: Vec<Row>,
    /// Whether each key comes after the one before.
    is_sorted: bool,
}

impl Part {
    pub(super) fn new(order: Arc<dyn Comparator>) -> Self {
        Part {
            is_bytewise: order.name() == BytewiseComparator.name(),
            order,
            bytes: Vec::new(),
            rows: Vec::new(),
            is_sorted: true,
        }
    }

    /// Bytes of memory that the rows take.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.rows.len() * size_of::<Row>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row. Without a value, it is a key whose value is stored elsewhere. A key and a value
    /// have less than 4 GiB each.
    pub(super) fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        let row = Row {
            prefix: prefix(key),
            at: self.bytes.len(),
            key: key.len() as u32,
            value: value.map_or(NO_VALUE, |value| value.len() as u32),
        };
        if let Some(last) = self.rows.last() {
            let last = self.key(last);
            self.is_sorted = self.is_sorted && self.order.compare(last, key).is_lt();
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        if self.bytes.len() == row.at {
            // The next row would have the same place.
            self.bytes.push(0);
        }
        self.rows.push(row);
    }

    /// Shows the rows in the order of their keys, and of each key the last one that came.
    ///
    /// # Errors
    /// Those of `show`, which ends the part's rows.
    pub(super) fn drain<E>(
        &mut self,
        mut show: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rows = std::mem::take(&mut self.rows);
        if !std::mem::replace(&mut self.is_sorted, true) {
            rows.sort_unstable_by(|a, b| {
                // Of a key the last one comes first.
                self.compare(a, b).then(b.at.cmp(&a.at))
            });
            rows.dedup_by(|later, first| self.compare(later, first).is_eq());
        }
        let shown = rows
            .iter()
            .try_for_each(|row| show(self.key(row), self.value(row)));
        rows.clear();
        // The memory is used again.
        self.rows = rows;
        self.bytes.clear();
        shown
    }

    fn compare(&self, a: &Row, b: &Row) -> Ordering {
        match a.prefix.cmp(&b.prefix) {
            Ordering::Equal => {}
            different if self.is_bytewise => return different,
            _ => {}
        }
        self.order.compare(self.key(a), self.key(b))
    }

    fn key(&self, row: &Row) -> &[u8] {
        self.slice(row.at, row.key)
    }

    fn value(&self, row: &Row) -> Option<&[u8]> {
        (row.value != NO_VALUE).then(|| self.slice(row.at + row.key as usize, row.value))
    }

    fn slice(&self, at: usize, len: u32) -> &[u8] {
        self.bytes.get(at..at + len as usize).unwrap_or_default()
    }
}

/// The first eight bytes of a key as a number of the same order, with zeros after a shorter one.
fn prefix(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use titan::ReverseBytewiseComparator;

    use super::*;

    type Rows = Vec<(Vec<u8>, Option<Vec<u8>>)>;

    fn drained(part: &mut Part) -> Rows {
        let mut rows = Vec::new();
        let shown: Result<(), ()> = part.drain(|key, value| {
            rows.push((key.to_vec(), value.map(<[u8]>::to_vec)));
            Ok(())
        });
        shown.unwrap();
        assert!(part.is_empty() && part.size() == 0);
        rows
    }

    #[test]
    fn rows_are_sorted_and_the_last_of_a_key_counts() {
        let orders: [Arc<dyn Comparator>; 2] = [
            Arc::new(BytewiseComparator),
            Arc::new(ReverseBytewiseComparator),
        ];
        for order in orders {
            let mut part = Part::new(Arc::clone(&order));
            for turn in 0..2_u32 {
                let mut expected = Rows::new();
                for n in 0..3000_u32 {
                    // Lengths below and above that of a prefix; a zero is no end of a key.
                    let key = format!("{:0len$}\0{}", n * 7919 % 701, n % 3, len = n as usize % 11);
                    let key = key.into_bytes();
                    let value = (n % 5 != turn).then(|| n.to_be_bytes().to_vec());
                    part.push(&key, value.as_deref());
                    expected.retain(|(other, _)| *other != key);
                    expected.push((key, value));
                }
                expected.sort_by(|a, b| order.compare(&a.0, &b.0));
                assert_eq!(drained(&mut part), expected);
            }
        }
    }

    #[test]
    fn rows_in_order_stay_as_they_are() {
        let mut part = Part::new(Arc::new(BytewiseComparator));
        part.push(b"", Some(b""));
        part.push(b"a", None);
        part.push(b"a\0", Some(b"1"));
        assert!(part.is_sorted);
        let expected = [("", Some("")), ("a", None), ("a\0", Some("1"))];
        let bytes = |text: &str| text.as_bytes().to_vec();
        let expected: Rows = expected.map(|(k, v)| (bytes(k), v.map(bytes))).into();
        assert_eq!(drained(&mut part), expected);
        part.push(b"a", Some(b"1"));
        part.push(b"a", Some(b"2"));
        assert_eq!(drained(&mut part), [(bytes("a"), Some(bytes("2")))]);
    }

    #[test]
    fn the_last_row_counts_where_one_has_no_bytes() {
        let mut part = Part::new(Arc::new(BytewiseComparator));
        // Many, since a sort may leave few of them in their order.
        for rows in 1..100 {
            for _ in 0..rows {
                part.push(b"", None);
            }
            part.push(b"", Some(b"1"));
            assert_eq!(drained(&mut part), [(vec![], Some(b"1".to_vec()))]);
            part.push(b"", Some(b"1"));
            for _ in 0..rows {
                part.push(b"", None);
            }
            assert_eq!(drained(&mut part), [(vec![], None)]);
        }
    }
}
