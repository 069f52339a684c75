//! Sorting of a few items, compiled once.
//!
//! The standard library's sort is compiled for each type and each order anew, to five kilobytes of
//! code. This one sorts the places of items, and then the items by their places. Its callers sort
//! rarely, or compare by a comparator: code that sorts many small items calls the library's.

use std::cmp::Ordering;

/// Sorts items; equal ones keep their order.
pub(crate) fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// Sorts items by their keys; those with equal ones keep their order.
pub(crate) fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// Sorts items by an order of them; equal ones keep their order.
pub(crate) fn sort_by<T>(items: &mut [T], order: impl Fn(&T, &T) -> Ordering) {
    let places = sorted_places(items.len(), &|a, b| order(&items[a], &items[b]));
    follow(places, &mut |a, b| items.swap(a, b));
}

/// The places from which the sorted items are to be taken.
fn sorted_places(count: usize, order: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places = Vec::from_iter(0..count);
    places.sort_by(|a, b| order(*a, *b));
    places
}

/// Swaps items until each is from its place in `places`.
fn follow(mut places: Vec<usize>, swap: &mut dyn FnMut(usize, usize)) {
    for first in 0..places.len() {
        let mut to = first;
        loop {
            let from = std::mem::replace(&mut places[to], to);
            if from == first {
                break;
            }
            swap(to, from);
            to = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_sorted_as_by_the_standard_library() {
        let mut rng = fastrand::Rng::with_seed(1);
        for count in 0..100 {
            let mut items: Vec<(u8, usize)> = (0..count).map(|i| (rng.u8(..20), i)).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            sort_by_key(&mut items, |item| item.0);
            assert_eq!(items, expected);
            items.reverse();
            sort(&mut items);
            assert_eq!(items, expected);
        }
    }
}
