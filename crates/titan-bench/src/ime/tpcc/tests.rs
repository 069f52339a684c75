//! TPC-C's conditions of consistency (clause 3.3.2) on a small store, after many transactions of
//! all kinds.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use titan_mvcc::{Direction, Store, StoreOptions};

use super::keys::{self, District, last_column, ranges};
use super::queries::Reads;
use super::rows::{CUSTOMER, DISTRICT, HISTORY, ORDER, ORDER_LINE, WAREHOUSE};
use super::scale::Scale;
use super::{Kind, Mix, load};

const SCALE: Scale = Scale {
    warehouses: 2,
    districts: 3,
    delivered: 1,
    customers: 30,
    items: 100,
};

fn all(store: &Store, (from, to): (Vec<u8>, Vec<u8>)) -> Vec<(Vec<u8>, Bytes)> {
    let snapshot = store.snapshot();
    let rows = snapshot.rows((&from, &to), Direction::Forward, usize::MAX);
    rows.unwrap()
}

fn sum_of_history(store: &Store, district: District) -> i64 {
    let rows = all(store, ranges::history(district));
    let amounts = rows.iter().map(|(_, row)| HISTORY.decode(row).unwrap()[0]);
    amounts.sum()
}

/// Conditions 2 to 7 of the orders of a district. Returns how much was delivered to each customer.
fn check_orders(store: &Store, district: District) -> BTreeMap<u32, i64> {
    let snapshot = store.snapshot();
    let [_, next] = DISTRICT
        .decode(&snapshot.row(&district.row()).unwrap())
        .unwrap();
    let queue = all(store, district.new_orders());
    let orders = all(store, ranges::orders(district));
    let numbers = |rows: &[(Vec<u8>, Bytes)]| -> Vec<u32> {
        rows.iter().map(|(key, _)| last_column(key)).collect()
    };
    let (queued, ordered) = (numbers(&queue), numbers(&orders));
    // 2 and 3: the newest order is the one before the next, and the queue has no holes.
    assert_eq!(i64::from(*ordered.last().unwrap()), next - 1);
    assert_eq!(i64::from(*queued.last().unwrap()), next - 1);
    assert_eq!(queued.last().unwrap() - queued[0] + 1, queued.len() as u32);
    let lines = all(store, district.order_lines(0, u32::MAX));
    let (mut counted, mut delivered) = (0, BTreeMap::new());
    for (key, row) in &orders {
        let order = last_column(key);
        let [customer, carrier, count] = ORDER.decode(row).unwrap();
        // 5: an order has a carrier if it is not in the queue.
        assert_eq!(carrier == 0, queued.contains(&order), "order {order}");
        let of_order = all(store, district.order_lines(order, order + 1));
        // 6: each has as many lines as it says.
        assert_eq!(of_order.len() as i64, count);
        counted += count;
        for (_, line) in &of_order {
            let [_, amount, day] = ORDER_LINE.decode(line).unwrap();
            // 7: its lines are delivered if it is.
            assert_eq!(day == 0, carrier == 0);
            if day != 0 {
                *delivered.entry(customer as u32).or_insert(0) += amount;
            }
        }
    }
    // 4
    assert_eq!(lines.len() as i64, counted);
    delivered
}

fn check(store: &Store) {
    let snapshot = store.snapshot();
    for warehouse in 0..SCALE.warehouses {
        let row = snapshot.row(&keys::warehouse(warehouse)).unwrap();
        let [income] = WAREHOUSE.decode(&row).unwrap();
        let (mut of_districts, mut of_history) = (0, 0);
        for district in SCALE.districts_of(warehouse..warehouse + 1) {
            let [own, _] = DISTRICT
                .decode(&snapshot.row(&district.row()).unwrap())
                .unwrap();
            // 9
            assert_eq!(own, sum_of_history(store, district));
            of_districts += own;
            of_history += sum_of_history(store, district);
            let delivered = check_orders(store, district);
            for (key, row) in all(store, ranges::customers(district)) {
                let [balance, paid, ..] = CUSTOMER.decode(&row).unwrap();
                let delivered = delivered.get(&last_column(&key)).copied().unwrap_or(0);
                // 10 and 12
                assert_eq!(balance + paid, delivered);
            }
        }
        // 1 and 8
        assert_eq!((income, income), (of_districts, of_history));
    }
}

#[test]
fn transactions_keep_the_conditions_of_consistency() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &StoreOptions::default()).unwrap();
    load::load(&store, SCALE, 120, Duration::ZERO, &|_| {}).unwrap();
    check(&store);
    let mut drawn = BTreeMap::new();
    for number in 0..3_000 {
        let random = fastrand::Rng::with_seed(number);
        let mix = Mix::draw(SCALE, number as u32 % SCALE.warehouses, random);
        *drawn.entry(mix.kind).or_insert(0) += 1;
        let mut transaction = store.begin();
        mix.read(number, &mut transaction).unwrap();
        transaction.commit().unwrap();
    }
    check(&store);
    assert_eq!(drawn.len(), 5);
    assert!(
        (1_200..1_500).contains(&drawn[&Kind::NewOrder]),
        "{drawn:?}"
    );
    // Its deliveries left dead rows in front of the queue.
    let district = SCALE.all_districts().next().unwrap();
    let (from, to) = district.new_orders();
    let snapshot = store.snapshot();
    let mut scan = snapshot
        .scan(Some(&from), Some(&to), Direction::Forward)
        .unwrap();
    assert!(scan.next().is_some());
    assert!(scan.stats().next > 120, "{:?}", scan.stats());
    drop((scan, snapshot));
    store.close().unwrap();
}
