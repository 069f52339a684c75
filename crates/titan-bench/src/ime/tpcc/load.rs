//! The first state of the tables, and a queue that has a history: orders that were delivered and
//! whose rows in the queue are dead.

use std::time::Duration;

use anyhow::Result;
use titan_mvcc::{Direction, Store, Transaction};

use super::keys::{self, District};
use super::orders::LINES;
use super::queries::Reads;
use super::rows::{CUSTOMER, DISTRICT, ENTRY, ITEM, ORDER, ORDER_LINE, STOCK, WAREHOUSE};
use super::scale::{QUEUE, Scale};

/// Delivered orders of a district that are loaded with all their rows. Of older ones only the dead
/// rows of the queue are left.
const DELIVERED: u32 = 100;
/// Rows of a transaction of the load, about.
const BATCH: u32 = 1_000;
/// Orders of a district in a step of the history.
const STEP: u32 = 50;

/// Loads all tables. `history` orders of each district were delivered, in the time `span` before
/// the present; `pass` moves the store's time on.
pub(crate) fn load(
    store: &Store,
    scale: Scale,
    history: u32,
    span: Duration,
    pass: &dyn Fn(Duration),
) -> Result<()> {
    // The first states of all rows are older than the history of the queue.
    batches(store, scale.items, |transaction, item| {
        let price = i64::from(item % 9_901) + 100;
        transaction.put(&keys::item(item), &ITEM.encode([price]));
    })?;
    for warehouse in 0..scale.warehouses {
        batches(store, scale.items, |transaction, item| {
            let quantity = i64::from(item % 91) + 10;
            transaction.put(&keys::stock(warehouse, item), &STOCK.encode([quantity, 0]));
        })?;
        batches(store, 1, |transaction, _| {
            transaction.put(&keys::warehouse(warehouse), &WAREHOUSE.encode([0]));
        })?;
    }
    for district in scale.all_districts() {
        batches(store, scale.customers, |transaction, customer| {
            transaction.put(&district.customer(customer), &CUSTOMER.encode([0; 4]));
            let name = district.customer_name(scale.name_of(customer), customer);
            transaction.put(&name, &ENTRY.encode([]));
        })?;
        load_orders(store, scale, district, history)?;
    }
    load_queue(store, scale, history, span, pass)
}

/// The last orders of a district.
fn load_orders(store: &Store, scale: Scale, district: District, history: u32) -> Result<()> {
    let next = history + QUEUE;
    let first = history.saturating_sub(DELIVERED);
    let mut random = fastrand::Rng::with_seed(u64::from(district.district));
    batches(store, next - first, |transaction, n| {
        let order = first + n;
        let customer = order % scale.customers.max(1);
        let count = random.u32(LINES);
        let carrier = i64::from(order < history);
        let row = ORDER.encode([i64::from(customer), carrier, i64::from(count)]);
        transaction.put(&district.order(order), &row);
        transaction.put(&district.customer_order(customer, order), &ENTRY.encode([]));
        for line in 0..count {
            // What was delivered has no amount, as in TPC-C's first state.
            let amount = match carrier {
                0 => random.i64(1..=999_999),
                _ => 0,
            };
            let item = i64::from(random.u32(..scale.items.max(1)));
            let row = ORDER_LINE.encode([item, amount, carrier]);
            transaction.put(&district.order_line(order, line), &row);
        }
    })?;
    batches(store, 1, |transaction, _| {
        transaction.put(&district.row(), &DISTRICT.encode([0, i64::from(next)]));
    })
}

/// The queues of all districts, with the rows of all orders up to the last one, and the deletions
/// of those that were delivered.
fn load_queue(
    store: &Store,
    scale: Scale,
    history: u32,
    span: Duration,
    pass: &dyn Fn(Duration),
) -> Result<()> {
    let steps = (history + QUEUE).div_ceil(STEP).max(1);
    for step in 0..steps {
        let orders = step * STEP..((step + 1) * STEP).min(history + QUEUE);
        let mut transaction = store.begin();
        for district in scale.all_districts() {
            for order in orders.clone() {
                transaction.put(&district.new_order(order), &ENTRY.encode([]));
                if let Some(delivered) = order.checked_sub(QUEUE) {
                    transaction.delete(&district.new_order(delivered));
                }
            }
        }
        transaction.commit()?;
        pass(span / steps);
    }
    Ok(())
}

/// Calls `write` for the numbers up to this one, in transactions of many.
pub(crate) fn batches(
    store: &Store,
    count: u32,
    mut write: impl FnMut(&mut Transaction, u32),
) -> Result<()> {
    for from in (0..count).step_by(BATCH as usize) {
        let mut transaction = store.begin();
        for n in from..(from + BATCH).min(count) {
            write(&mut transaction, n);
        }
        transaction.commit()?;
    }
    Ok(())
}

/// The keys in the queues of every second district of a group.
pub(crate) fn queue_keys(store: &Store, scale: Scale, group: u32) -> Result<Vec<Vec<u8>>> {
    let snapshot = store.snapshot();
    let mut keys = Vec::new();
    for district in scale.districts_of_group(group).step_by(2) {
        let (from, to) = district.new_orders();
        let rows = snapshot.rows((&from, &to), Direction::Forward, usize::MAX)?;
        keys.extend(rows.into_iter().map(|(key, _)| key));
    }
    Ok(keys)
}
