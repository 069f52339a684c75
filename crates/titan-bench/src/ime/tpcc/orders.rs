//! The transactions that move orders through the queue: NewOrder puts one at its end, Delivery
//! takes the first.

use anyhow::Result;
use titan_mvcc::{Direction, Transaction};

use super::keys::{self, District, last_column};
use super::queries::Reads;
use super::rows::{CUSTOMER, DISTRICT, ENTRY, ITEM, ORDER, ORDER_LINE, STOCK, WAREHOUSE};
use super::scale::Scale;

/// The lines of a new order.
pub(super) const LINES: std::ops::RangeInclusive<u32> = 5..=15;

/// Reads what a new order needs and writes it.
pub(super) fn new_order(
    scale: Scale,
    district: District,
    transaction: &mut Transaction,
    random: &mut fastrand::Rng,
) -> Result<()> {
    WAREHOUSE.decode(&transaction.row(&keys::warehouse(district.warehouse))?)?;
    let [income, next] = DISTRICT.decode(&transaction.row(&district.row())?)?;
    let order = next as u32;
    transaction.put(&district.row(), &DISTRICT.encode([income, next + 1]));

    let customer = scale.draw_customer(random);
    CUSTOMER.decode(&transaction.row(&district.customer(customer))?)?;
    let count = random.u32(LINES);
    let row = ORDER.encode([i64::from(customer), 0, i64::from(count)]);
    transaction.put(&district.order(order), &row);
    transaction.put(&district.customer_order(customer, order), &ENTRY.encode([]));
    transaction.put(&district.new_order(order), &ENTRY.encode([]));

    for line in 0..count {
        let item = scale.draw_item(random);
        let [price] = ITEM.decode(&transaction.row(&keys::item(item))?)?;
        let quantity = random.i64(1..=10);
        let of_stock = keys::stock(district.warehouse, item);
        let [left, orders] = STOCK.decode(&transaction.row(&of_stock)?)?;
        let refilled = match left >= quantity + 10 {
            true => left - quantity,
            false => left - quantity + 91,
        };
        transaction.put(&of_stock, &STOCK.encode([refilled, orders + 1]));
        let row = ORDER_LINE.encode([i64::from(item), price * quantity, 0]);
        transaction.put(&district.order_line(order, line), &row);
    }
    Ok(())
}

/// Delivers the first order of each of these districts that has one.
pub(super) fn delivery(
    districts: impl Iterator<Item = District>,
    transaction: &mut Transaction,
    random: &mut fastrand::Rng,
) -> Result<()> {
    let carrier = random.i64(1..=10);
    for district in districts {
        let (from, to) = district.new_orders();
        let first = transaction.rows((&from, &to), Direction::Forward, 1)?;
        if let Some((key, _)) = first.first() {
            transaction.delete(key);
            deliver(district, last_column(key), carrier, transaction)?;
        }
    }
    Ok(())
}

fn deliver(
    district: District,
    order: u32,
    carrier: i64,
    transaction: &mut Transaction,
) -> Result<()> {
    let of_order = district.order(order);
    let [customer, _, count] = ORDER.decode(&transaction.row(&of_order)?)?;
    transaction.put(&of_order, &ORDER.encode([customer, carrier, count]));

    let (from, to) = district.order_lines(order, order + 1);
    let mut sum = 0;
    for (key, line) in transaction.rows((&from, &to), Direction::Forward, usize::MAX)? {
        let [item, amount, _] = ORDER_LINE.decode(&line)?;
        sum += amount;
        transaction.put(&key, &ORDER_LINE.encode([item, amount, carrier]));
    }
    let of_customer = district.customer(customer as u32);
    let [balance, paid, payments, deliveries] = CUSTOMER.decode(&transaction.row(&of_customer)?)?;
    let row = CUSTOMER.encode([balance + sum, paid, payments, deliveries + 1]);
    transaction.put(&of_customer, &row);
    Ok(())
}
