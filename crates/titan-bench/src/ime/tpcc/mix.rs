//! Which transaction comes next: TPC-C's mix, drawn by the number of the job.

use anyhow::Result;
use titan_mvcc::{Snapshot, Transaction};

use super::keys::District;
use super::scale::Scale;
use super::{orders, payment, queries};

/// A transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

/// Of 100 transactions, so many are of each kind (clause 5.2.3).
const MIX: [(Kind, u32); 5] = [
    (Kind::NewOrder, 45),
    (Kind::Payment, 43),
    (Kind::OrderStatus, 4),
    (Kind::Delivery, 4),
    (Kind::StockLevel, 4),
];

/// The share of NewOrder in all transactions.
pub(crate) const NEW_ORDERS: f64 = 0.45;

impl Kind {
    fn draw(random: &mut fastrand::Rng) -> Kind {
        let mut at = random.u32(..100);
        for (kind, share) in MIX {
            match at.checked_sub(share) {
                None => return kind,
                Some(rest) => at = rest,
            }
        }
        Kind::NewOrder
    }
}

/// A transaction that was drawn: its kind and its district.
pub(crate) struct Mix {
    scale: Scale,
    pub(crate) kind: Kind,
    group: u32,
    district: District,
    random: fastrand::Rng,
}

impl Mix {
    /// Draws a transaction of a group of warehouses.
    pub(crate) fn draw(scale: Scale, group: u32, mut random: fastrand::Rng) -> Self {
        let kind = Kind::draw(&mut random);
        let district = scale.draw_district(group, &mut random);
        Mix {
            scale,
            kind,
            group,
            district,
            random,
        }
    }

    /// Reads what the transaction reads, and puts its writes into `transaction`. `number` tells it
    /// apart from others.
    pub(crate) fn read(mut self, number: u64, transaction: &mut Transaction) -> Result<()> {
        let (scale, district, random) = (self.scale, self.district, &mut self.random);
        match self.kind {
            Kind::NewOrder => orders::new_order(scale, district, transaction, random),
            Kind::Payment => payment::payment(scale, district, number, transaction, random),
            Kind::OrderStatus => queries::order_status(scale, district, transaction, random),
            Kind::Delivery => {
                let districts = scale.districts_of_group(self.group);
                orders::delivery(districts, transaction, random)
            }
            Kind::StockLevel => queries::stock_level(district, transaction, random).map(|_| ()),
        }
    }

    /// Asks one of the two queries as of a snapshot, if the transaction is one. Returns whether it
    /// is.
    pub(crate) fn read_at(mut self, snapshot: &Snapshot) -> Result<bool> {
        let (scale, district, random) = (self.scale, self.district, &mut self.random);
        match self.kind {
            Kind::OrderStatus => queries::order_status(scale, district, snapshot, random)?,
            Kind::StockLevel => {
                queries::stock_level(district, snapshot, random)?;
            }
            Kind::NewOrder | Kind::Payment | Kind::Delivery => return Ok(false),
        }
        Ok(true)
    }
}
