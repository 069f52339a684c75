//! The rows of TPC-C's tables: some numbers, and bytes that fill them up to about TPC-C's sizes.

use anyhow::{Context, Result};

/// A kind of rows with `N` numbers.
#[derive(Clone, Copy)]
pub(super) struct Shape<const N: usize> {
    /// Bytes of a row, at least those of its numbers.
    bytes: usize,
}

/// The year's income. Amounts are in cents.
pub(super) const WAREHOUSE: Shape<1> = Shape { bytes: 89 };
/// The year's income; the number of the next order.
pub(super) const DISTRICT: Shape<2> = Shape { bytes: 95 };
/// The balance; the sum of payments; how many payments; how many deliveries.
pub(super) const CUSTOMER: Shape<4> = Shape { bytes: 300 };
/// The amount.
pub(super) const HISTORY: Shape<1> = Shape { bytes: 46 };
/// Nothing: an entry of an index, or of the queue.
pub(super) const ENTRY: Shape<0> = Shape { bytes: 8 };
/// The price.
pub(super) const ITEM: Shape<1> = Shape { bytes: 82 };
/// The customer; the carrier, 0 for none; how many lines.
pub(super) const ORDER: Shape<3> = Shape { bytes: 50 };
/// The item; the amount; the day of the delivery, 0 for none.
pub(super) const ORDER_LINE: Shape<3> = Shape { bytes: 54 };
/// The quantity; the year's orders.
pub(super) const STOCK: Shape<2> = Shape { bytes: 250 };

impl<const N: usize> Shape<N> {
    pub(super) fn encode(self, numbers: [i64; N]) -> Vec<u8> {
        let mut row = Vec::with_capacity(self.bytes);
        for number in numbers {
            row.extend_from_slice(&number.to_le_bytes());
        }
        // What follows differs from row to row, so that it is not compressed away.
        let seed = numbers
            .iter()
            .fold(1, |seed: i64, n| seed.wrapping_mul(31).wrapping_add(*n));
        let mut random = fastrand::Rng::with_seed(seed as u64);
        let numbers = row.len();
        row.resize(self.bytes.max(numbers), 0);
        random.fill(row.get_mut(numbers..).unwrap_or_default());
        row
    }

    /// The numbers of a row.
    ///
    /// # Errors
    /// If the row is too short to have them.
    pub(super) fn decode(self, row: &[u8]) -> Result<[i64; N]> {
        let mut numbers = [0; N];
        for (at, number) in numbers.iter_mut().enumerate() {
            let bytes = row.get(at * 8..).and_then(|rest| rest.first_chunk::<8>());
            *number = i64::from_le_bytes(*bytes.context("a row is shorter than its numbers")?);
        }
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_their_numbers_and_size() {
        let row = CUSTOMER.encode([-1, 2, i64::MAX, 4]);
        assert_eq!(row.len(), 300);
        assert_eq!(CUSTOMER.decode(&row).unwrap(), [-1, 2, i64::MAX, 4]);
        assert!(CUSTOMER.decode(&row[..31]).is_err());
    }
}
