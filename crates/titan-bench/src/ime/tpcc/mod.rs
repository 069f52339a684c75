//! TPC-C's five transactions over a store of versions.
//!
//! Owns the data model: which keys there are, what rows have, and what each transaction reads and
//! writes. The keys have the shapes of TPC-C's tables and indexes. Rows have the fields that the
//! consistency conditions of TPC-C need, and are filled up to about TPC-C's sizes.
//!
//! | module | has |
//! |---|---|
//! | [`keys`] | the keys of all tables |
//! | [`rows`] | the fields of rows |
//! | [`scale`] | how many rows there are, and drawing one of them |
//! | [`load`] | the first state, and a queue with a history |
//! | [`orders`] | NewOrder, Delivery |
//! | [`payment`] | Payment |
//! | [`queries`] | OrderStatus, StockLevel |
//! | [`mix`] | which transaction comes next |

mod keys;
pub(super) mod load;
mod mix;
mod orders;
mod payment;
mod queries;
mod rows;
pub(super) mod scale;
#[cfg(test)]
mod tests;

pub(super) use load::queue_keys;
pub(super) use mix::{Kind, Mix, NEW_ORDERS};
