//! The transactions that write nothing: OrderStatus and StockLevel.

use anyhow::{Context, Result};
use bytes::Bytes;
use titan_mvcc::{Direction, Row, Snapshot, Transaction};

use super::keys::{self, District, last_column};
use super::rows::{CUSTOMER, DISTRICT, ORDER, ORDER_LINE, STOCK};
use super::scale::Scale;

/// Reads of both snapshots and transactions.
pub(crate) trait Reads {
    /// The value of a key.
    fn value(&self, key: &[u8]) -> Result<Option<Bytes>>;

    /// The first rows of a range in a direction, so many at most.
    fn rows(
        &self,
        range: (&[u8], &[u8]),
        direction: Direction,
        most: usize,
    ) -> Result<Vec<(Vec<u8>, Bytes)>>;

    /// The value of a key that must have one.
    fn row(&self, key: &[u8]) -> Result<Bytes> {
        let value = self.value(key)?;
        value.with_context(|| format!("the row {} is missing", key.escape_ascii()))
    }
}

fn collected(
    rows: impl Iterator<Item = titan_mvcc::Result<Row>>,
    most: usize,
) -> Result<Vec<(Vec<u8>, Bytes)>> {
    let rows = rows.take(most).map(|row| {
        let row = row?;
        Ok((row.key, row.value.fetch()?))
    });
    rows.collect()
}

impl Reads for Transaction {
    fn value(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.get(key)?)
    }

    fn rows(
        &self,
        (from, to): (&[u8], &[u8]),
        direction: Direction,
        most: usize,
    ) -> Result<Vec<(Vec<u8>, Bytes)>> {
        collected(self.scan(Some(from), Some(to), direction)?, most)
    }
}

impl Reads for Snapshot {
    fn value(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.get(key)?)
    }

    fn rows(
        &self,
        (from, to): (&[u8], &[u8]),
        direction: Direction,
        most: usize,
    ) -> Result<Vec<(Vec<u8>, Bytes)>> {
        collected(self.scan(Some(from), Some(to), direction)?, most)
    }
}

/// A customer of a district: of 100, 60 are asked for by name, of which the one in the middle is
/// taken.
pub(super) fn customer(
    scale: Scale,
    district: District,
    reads: &impl Reads,
    random: &mut fastrand::Rng,
) -> Result<u32> {
    let customer = scale.draw_customer(random);
    if random.u32(..100) >= 60 {
        return Ok(customer);
    }
    let (from, to) = district.customers_of_name(scale.name_of(customer));
    let named = reads.rows((&from, &to), Direction::Forward, usize::MAX)?;
    let middle = named.get(named.len() / 2).context("nobody has this name")?;
    Ok(last_column(&middle.0))
}

/// The last order of a customer and its lines.
pub(super) fn order_status(
    scale: Scale,
    district: District,
    reads: &impl Reads,
    random: &mut fastrand::Rng,
) -> Result<()> {
    let customer = customer(scale, district, reads, random)?;
    CUSTOMER.decode(&reads.row(&district.customer(customer))?)?;
    let (from, to) = district.orders_of_customer(customer);
    let newest = reads.rows((&from, &to), Direction::Backward, 1)?;
    let Some((key, _)) = newest.first() else {
        return Ok(());
    };
    let order = last_column(key);
    let [_, _, count] = ORDER.decode(&reads.row(&district.order(order))?)?;
    let (from, to) = district.order_lines(order, order + 1);
    let lines = reads.rows((&from, &to), Direction::Forward, usize::MAX)?;
    anyhow::ensure!(
        lines.len() as i64 == count,
        "an order of {count} lines has {}",
        lines.len()
    );
    Ok(())
}

/// Number of items of the last 20 orders of a district that are short in stock.
pub(super) fn stock_level(
    district: District,
    reads: &impl Reads,
    random: &mut fastrand::Rng,
) -> Result<usize> {
    let least = random.i64(10..=20);
    let [_, next] = DISTRICT.decode(&reads.row(&district.row())?)?;
    let next = next as u32;
    let (from, to) = district.order_lines(next.saturating_sub(20), next);
    let lines = reads.rows((&from, &to), Direction::Forward, usize::MAX)?;
    let items: Result<Vec<i64>> = lines
        .iter()
        .map(|(_, line)| ORDER_LINE.decode(line).map(|[item, ..]| item))
        .collect();
    let mut items = items?;
    items.sort_unstable();
    items.dedup();
    let mut short = 0;
    for item in items {
        let stock = reads.row(&keys::stock(district.warehouse, item as u32))?;
        let [quantity, _] = STOCK.decode(&stock)?;
        short += usize::from(quantity < least);
    }
    Ok(short)
}
