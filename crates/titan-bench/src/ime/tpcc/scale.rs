//! Numbers of rows, and drawing one of them.

use std::ops::Range;

use super::keys::District;

/// Rows of a district of the queue that are not delivered at first.
pub(crate) const QUEUE: u32 = 900;

/// Number of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) warehouses: u32,
    /// Of a warehouse; TPC-C has 10.
    pub(crate) districts: u32,
    /// Warehouses whose districts one delivery serves; TPC-C has 1.
    pub(crate) delivered: u32,
    /// Of a district; TPC-C has 3,000.
    pub(crate) customers: u32,
    /// TPC-C has 100,000.
    pub(crate) items: u32,
}

impl Scale {
    /// All districts.
    pub(super) fn all_districts(self) -> impl Iterator<Item = District> {
        self.districts_of(0..self.warehouses)
    }

    /// The districts of some warehouses.
    pub(super) fn districts_of(self, warehouses: Range<u32>) -> impl Iterator<Item = District> {
        warehouses.flat_map(move |warehouse| {
            let numbers = 0..self.districts;
            numbers.map(move |district| District {
                warehouse,
                district,
            })
        })
    }

    /// The districts of a group of warehouses which one delivery serves.
    pub(super) fn districts_of_group(self, group: u32) -> impl Iterator<Item = District> {
        self.districts_of(group * self.delivered..(group + 1) * self.delivered)
    }

    /// Some district of a group.
    pub(super) fn draw_district(self, group: u32, random: &mut fastrand::Rng) -> District {
        let warehouse = group * self.delivered + random.u32(..self.delivered.max(1));
        let district = random.u32(..self.districts.max(1));
        District {
            warehouse,
            district,
        }
    }

    /// The name of a customer, as a number. Three customers have the same name.
    pub(super) fn name_of(self, customer: u32) -> u32 {
        customer % (self.customers / 3).max(1)
    }

    /// A customer. Some are drawn more often, as TPC-C's NURand has it.
    pub(super) fn draw_customer(self, random: &mut fastrand::Rng) -> u32 {
        uneven(random, 1023, self.customers)
    }

    /// An item.
    pub(super) fn draw_item(self, random: &mut fastrand::Rng) -> u32 {
        uneven(random, 8191, self.items)
    }
}

/// NURand of TPC-C (clause 2.1.6), with the constant 0.
fn uneven(random: &mut fastrand::Rng, a: u32, below: u32) -> u32 {
    let below = below.max(1);
    (random.u32(..=a) | random.u32(..below)) % below
}
