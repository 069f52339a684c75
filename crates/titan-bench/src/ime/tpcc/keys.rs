//! The keys of TPC-C's tables: a byte for the table, then the columns of its primary key as
//! big-endian numbers, so that keys sort as their columns do.

/// A table or an index.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Table {
    Warehouse = b'a',
    District,
    Customer,
    /// Customers of a district by last name.
    CustomerName,
    /// Orders of a customer.
    CustomerOrder,
    History,
    Item,
    NewOrder,
    Order,
    OrderLine,
    Stock,
}

/// A district: the numbers of its warehouse and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct District {
    pub(super) warehouse: u32,
    pub(super) district: u32,
}

fn key(table: Table, columns: &[u32]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + columns.len() * 4);
    key.push(table as u8);
    for column in columns {
        key.extend_from_slice(&column.to_be_bytes());
    }
    key
}

/// The last column of a key.
pub(super) fn last_column(key: &[u8]) -> u32 {
    let column = key.last_chunk::<4>();
    column.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

pub(super) fn warehouse(warehouse: u32) -> Vec<u8> {
    key(Table::Warehouse, &[warehouse])
}

pub(super) fn item(item: u32) -> Vec<u8> {
    key(Table::Item, &[item])
}

pub(super) fn stock(warehouse: u32, item: u32) -> Vec<u8> {
    key(Table::Stock, &[warehouse, item])
}

impl District {
    fn key(self, table: Table, columns: &[u32]) -> Vec<u8> {
        let own = [self.warehouse, self.district];
        key(table, &[&own, columns].concat())
    }

    pub(super) fn row(self) -> Vec<u8> {
        self.key(Table::District, &[])
    }

    pub(super) fn customer(self, customer: u32) -> Vec<u8> {
        self.key(Table::Customer, &[customer])
    }

    /// An entry of the index of names.
    pub(super) fn customer_name(self, name: u32, customer: u32) -> Vec<u8> {
        self.key(Table::CustomerName, &[name, customer])
    }

    /// The customers of a name: from the first key to before the second.
    pub(super) fn customers_of_name(self, name: u32) -> (Vec<u8>, Vec<u8>) {
        let of = |name| self.key(Table::CustomerName, &[name]);
        (of(name), of(name + 1))
    }

    /// An entry of the index of orders by customer.
    pub(super) fn customer_order(self, customer: u32, order: u32) -> Vec<u8> {
        self.key(Table::CustomerOrder, &[customer, order])
    }

    /// The orders of a customer.
    pub(super) fn orders_of_customer(self, customer: u32) -> (Vec<u8>, Vec<u8>) {
        let of = |customer| self.key(Table::CustomerOrder, &[customer]);
        (of(customer), of(customer + 1))
    }

    /// A payment; `number` tells the payments of a customer apart.
    pub(super) fn history(self, customer: u32, number: u64) -> Vec<u8> {
        let (high, low) = ((number >> 32) as u32, number as u32);
        self.key(Table::History, &[customer, high, low])
    }

    pub(super) fn new_order(self, order: u32) -> Vec<u8> {
        self.key(Table::NewOrder, &[order])
    }

    /// The queue of orders that are not delivered.
    pub(super) fn new_orders(self) -> (Vec<u8>, Vec<u8>) {
        self.all(Table::NewOrder)
    }

    pub(super) fn order(self, order: u32) -> Vec<u8> {
        self.key(Table::Order, &[order])
    }

    pub(super) fn order_line(self, order: u32, line: u32) -> Vec<u8> {
        self.key(Table::OrderLine, &[order, line])
    }

    /// The lines of the orders from one to before another.
    pub(super) fn order_lines(self, from: u32, to: u32) -> (Vec<u8>, Vec<u8>) {
        let of = |order| self.key(Table::OrderLine, &[order]);
        (of(from), of(to))
    }

    fn all(self, table: Table) -> (Vec<u8>, Vec<u8>) {
        let after = District {
            district: self.district + 1,
            ..self
        };
        (self.key(table, &[]), after.key(table, &[]))
    }
}

#[cfg(test)]
pub(super) mod ranges {
    //! Whole tables of a district, for the conditions of consistency.

    use super::*;

    pub(in crate::ime::tpcc) fn orders(district: District) -> (Vec<u8>, Vec<u8>) {
        district.all(Table::Order)
    }

    pub(in crate::ime::tpcc) fn history(district: District) -> (Vec<u8>, Vec<u8>) {
        district.all(Table::History)
    }

    pub(in crate::ime::tpcc) fn customers(district: District) -> (Vec<u8>, Vec<u8>) {
        district.all(Table::Customer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_columns() {
        let district = District {
            warehouse: 1,
            district: 9,
        };
        let (from, to) = district.new_orders();
        for order in [0, 1, 255, 256, u32::MAX] {
            let key = district.new_order(order);
            assert!(from <= key && key < to);
            assert_eq!(last_column(&key), order);
        }
        let (from, to) = district.order_lines(7, 9);
        assert!(from < district.order_line(7, 0) && district.order_line(8, 15) < to);
        assert!(district.order_line(9, 0) > to);
    }
}
