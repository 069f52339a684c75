//! Writes that go through a transaction, which is looked into before it commits.

use titan::{Db, Transaction, TransactionOptions, TransactionSnapshot, WriteOptions};

use super::entity;
use super::keys::stored;
use super::named;
use crate::failure::{Checked, ensure};
use crate::ops::{Value, Write};

/// Whether a transaction can do these writes.
pub(super) fn can_do(writes: &[Write]) -> bool {
    let is_range = |write: &Write| matches!(write, Write::DeleteRange { .. });
    !writes.iter().any(is_range)
}

/// The options of the transaction for the operation of this number.
pub(super) fn options(operation: usize, write: WriteOptions) -> TransactionOptions {
    let options = match operation.is_multiple_of(2) {
        true => TransactionOptions::pessimistic(),
        false => TransactionOptions::default(),
    };
    TransactionOptions {
        snapshot: match operation % 3 {
            0 => TransactionSnapshot::AtBegin,
            1 => TransactionSnapshot::AtFirstUse,
            _ => TransactionSnapshot::None,
        },
        write,
        ..options
    }
}

/// Commits the writes in a transaction. After each one it does something else up to a save point,
/// takes that back, and then sees just what it wrote.
pub(super) fn commit(
    db: &Db,
    writes: &[Write],
    bytes: impl Fn(&str, &[u8], Value) -> Vec<u8>,
    is_entity: impl Fn(Value) -> bool,
    options: &TransactionOptions,
) -> Checked<()> {
    let transaction = db.begin(options)?;
    for write in writes {
        let family = named(db, write.family())?;
        let (key, value) = match write {
            Write::Put { key, value, .. } | Write::Merge { key, value, .. } => (key, Some(*value)),
            Write::Delete { key, .. } | Write::SingleDelete { key, .. } => (key, None),
            Write::DeleteRange { from, .. } => (from, None),
        };
        let as_entity = value.is_some_and(&is_entity);
        let value = value.map(|value| bytes(family.name(), key, value));
        let key = stored(&family, key);
        let before = transaction.get_for_update(&family, &key)?;
        let after = match (write, &value) {
            (Write::Put { .. }, Some(value)) => {
                match as_entity {
                    true => transaction.put_entity(&family, &key, entity::columns(value))?,
                    false => transaction.put(&family, &key, value)?,
                }
                Some(value.clone())
            }
            (Write::Merge { .. }, Some(value)) => {
                transaction.merge(&family, &key, value)?;
                Some(match &before {
                    Some(before) => [before, &value[..]].join(&b',').to_vec(),
                    None => value.clone(),
                })
            }
            (Write::SingleDelete { .. }, _) => {
                transaction.single_delete(&family, &key)?;
                None
            }
            _ => {
                transaction.delete(&family, &key)?;
                None
            }
        };
        take_back_something(&transaction, &family, &key)?;
        let found = transaction.get(&family, &key)?;
        ensure!(
            found.as_deref() == after.as_deref(),
            "a transaction does not see its write to \"{}\"",
            key.escape_ascii()
        );
        let columns = transaction.get_entity(&family, &key)?;
        let columns = columns.map(|columns| entity::read(&columns)).transpose()?;
        ensure!(
            columns.and_then(|columns| columns.into_iter().next()) == after,
            "a transaction sees another default column than it wrote to \"{}\"",
            key.escape_ascii()
        );
    }
    Ok(transaction.commit()?)
}

fn take_back_something(
    transaction: &Transaction,
    family: &titan::ColumnFamily,
    key: &[u8],
) -> Checked<()> {
    transaction.set_save_point();
    transaction.put(family, key, b"taken back")?;
    transaction.delete(family, [key, b"/other"].concat())?;
    Ok(transaction.rollback_to_save_point()?)
}
