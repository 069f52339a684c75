//! Transactions that run again after a conflict.

use titan::Retry;

use super::handle::Store;
use crate::error::{Error, Result};
use crate::timestamp::Timestamp;
use crate::transaction::{PessimisticTransaction, Transaction};

impl Store {
    /// Runs `body` in an optimistic transaction and commits it. After a retryable error, runs it
    /// again as [`Retry::default`] allows. Returns the result of `body` and the commit timestamp.
    ///
    /// `body` may run several times. So it should have no other effects, and depend on the
    /// transaction alone. To roll back, return an error.
    ///
    /// ```
    /// # fn main() -> titan_mvcc::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = titan_mvcc::Store::open(dir.path(), &Default::default())?;
    /// let (visits, at) = store.transaction(|t| {
    ///     let visits = t.get(b"visits")?.map_or(0, |value| value[0]) + 1;
    ///     t.put(b"visits", &[visits]);
    ///     Ok(visits)
    /// })?;
    /// assert_eq!(visits, 1);
    /// assert_eq!(store.snapshot_at(at)?.get(b"visits")?.as_deref(), Some(&[1][..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `body` and of [`Transaction::commit`]. A retryable error after the last attempt.
    pub fn transaction<T>(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<(T, Timestamp)> {
        self.transaction_with(&Retry::default(), body)
    }

    /// Runs `body` in an optimistic transaction as `retry` allows, with the caller's error type.
    ///
    /// # Errors
    /// Those of [`Store::transaction`].
    pub fn transaction_with<T, E: From<Error> + titan::Retryable>(
        &self,
        retry: &Retry,
        mut body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<(T, Timestamp), E> {
        retry.run(&*self.clock(), || {
            let mut transaction = self.begin();
            let value = body(&mut transaction)?;
            Ok((value, transaction.commit()?))
        })
    }

    /// Runs `body` in a pessimistic transaction and commits it, as `retry` allows.
    ///
    /// # Errors
    /// Those of `body`, of [`Store::begin_pessimistic`] and of [`PessimisticTransaction::commit`].
    pub fn pessimistic_transaction_with<T, E: From<Error> + titan::Retryable>(
        &self,
        retry: &Retry,
        mut body: impl FnMut(&mut PessimisticTransaction) -> Result<T, E>,
    ) -> Result<(T, Timestamp), E> {
        retry.run(&*self.clock(), || {
            let mut transaction = self.begin_pessimistic()?;
            let value = body(&mut transaction)?;
            Ok((value, transaction.commit()?))
        })
    }
}
