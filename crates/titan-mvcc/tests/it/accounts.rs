//! Accounts between which tests move money. The sum of all of them stays the same.

use titan_mvcc::{Direction, Snapshot, Store, Transaction};

/// The first balance of each account.
pub const EACH: u64 = 100;

/// The number that is stored; 0 for an account without money, which is not stored.
pub fn number(value: Option<bytes::Bytes>) -> u64 {
    value.map_or(0, |value| u64::from_be_bytes(value[..].try_into().unwrap()))
}

/// Gives so many accounts their money.
pub fn open_accounts(store: &Store, accounts: u8) {
    let mut opening = store.begin();
    for account in 0..accounts {
        opening.put(&[account], &EACH.to_be_bytes());
    }
    opening.commit().unwrap();
}

/// The sum of all balances.
pub fn sum(snapshot: &Snapshot, direction: Direction) -> u64 {
    let rows = snapshot.scan(None, None, direction).unwrap();
    let values = rows.map(|row| number(Some(row.unwrap().value.fetch().unwrap())));
    values.sum()
}

/// A transaction that moves 1 from some account to another one; none if the account has nothing.
pub fn movement(store: &Store, accounts: u8, rng: &mut fastrand::Rng) -> Option<Transaction> {
    let (from, to) = (rng.u8(..accounts), rng.u8(..accounts));
    let mut transaction = store.begin();
    let has = number(transaction.get(&[from]).unwrap());
    if from == to || has == 0 {
        return None;
    }
    let gets = number(transaction.get(&[to]).unwrap()) + 1;
    transaction.put(&[to], &gets.to_be_bytes());
    match has {
        // So deletions take part.
        1 => transaction.delete(&[from]),
        _ => transaction.put(&[from], &(has - 1).to_be_bytes()),
    }
    Some(transaction)
}
