//! Payment: a customer pays, and the district and the warehouse have the income.

use anyhow::Result;
use titan_mvcc::Transaction;

use super::keys::{self, District};
use super::queries::{Reads, customer};
use super::rows::{CUSTOMER, DISTRICT, HISTORY, WAREHOUSE};
use super::scale::Scale;

/// Reads and writes a payment; `number` tells it apart from others.
pub(super) fn payment(
    scale: Scale,
    district: District,
    number: u64,
    transaction: &mut Transaction,
    random: &mut fastrand::Rng,
) -> Result<()> {
    let amount = random.i64(100..=500_000);
    let of_warehouse = keys::warehouse(district.warehouse);
    let [income] = WAREHOUSE.decode(&transaction.row(&of_warehouse)?)?;
    transaction.put(&of_warehouse, &WAREHOUSE.encode([income + amount]));

    let [income, next] = DISTRICT.decode(&transaction.row(&district.row())?)?;
    transaction.put(&district.row(), &DISTRICT.encode([income + amount, next]));

    let customer = customer(scale, district, transaction, random)?;
    let of_customer = district.customer(customer);
    let [balance, paid, payments, deliveries] = CUSTOMER.decode(&transaction.row(&of_customer)?)?;
    let row = CUSTOMER.encode([balance - amount, paid + amount, payments + 1, deliveries]);
    transaction.put(&of_customer, &row);

    let history = district.history(customer, number);
    transaction.put(&history, &HISTORY.encode([amount]));
    Ok(())
}
