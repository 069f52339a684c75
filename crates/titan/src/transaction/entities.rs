//! Values with columns in a transaction.

use bytes::Bytes;

use super::handle::Transaction;
use super::index::Pending;
use crate::db::ColumnFamily;
use crate::error::Result;
use crate::format::entity::encode_columns;
use crate::wide_columns::WideColumns;

impl Transaction {
    /// The columns of `key` as the transaction sees them: see [`Transaction::get`] and
    /// [`ColumnFamily::get_entity`].
    pub fn get_entity(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<WideColumns>> {
        let state = &mut self.state.lock();
        self.columns_in(state, family, key.as_ref())
    }

    /// Sets `key` to an entity of these columns when the transaction commits: see
    /// [`ColumnFamily::put_entity`]. Its own reads see it at once.
    ///
    /// # Errors
    /// `InvalidArgument` if two columns have the same name.
    pub fn put_entity<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        let key = key.as_ref();
        let entity = Bytes::from(encode_columns(columns)?);
        let columns = WideColumns::of_inline_entity(&entity)?;
        self.write(family, key, Pending::Entity(columns), |batch| {
            batch.put_encoded_entity(family, key, &entity)
        })
    }
}
