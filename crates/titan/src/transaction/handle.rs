//! A transaction: its writes, its reads, and how it ends.

use bytes::Bytes;

use super::index::{Index, Pending};
use super::iterator::TransactionIterator;
use super::options::{TransactionOptions, TransactionSnapshot};
use super::state::{State, new_index};
use super::tracked::Use;
use crate::batch::WriteBatch;
use crate::db::{ColumnFamily, Db};
use crate::error::{Error, Result};
use crate::lazy_value::LazyValue;
use crate::locks::{LockKey, Mode, OwnerId};
use crate::merge::full_merge;
use crate::read::{Bounds, ReadOptions, Snapshot};
use crate::sync::Mutex;
use crate::wide_columns::WideColumns;

/// Reads and writes that take effect together, or not at all: see the [module](super).
///
/// Begun by [`Db::begin`]. It ends by [`Transaction::commit`] or [`Transaction::rollback`];
/// dropping it rolls it back. Families are named by handles; a [`Db`] acts as that of its family
/// `default`. Threads may share a transaction; its calls run one at a time.
///
/// # Errors
/// Of all methods with a family: `Closed`; `InvalidArgument` if it is of another database or was
/// dropped. Of reads: those of [`ColumnFamily`]. Of methods that touch a key for writing, or guard
/// it, if the transaction is pessimistic: `LockTimeout`, `Deadlock`, `LockLimit`; `Conflict` if the
/// key was written after the transaction's snapshot. After an error the transaction is as before
/// the call, and may go on; only a shared lock that the call made exclusive stays exclusive.
pub struct Transaction {
    pub(super) db: Db,
    pub(super) options: TransactionOptions,
    pub(super) id: OwnerId,
    pub(super) state: Mutex<State>,
}

impl Transaction {
    pub(super) fn begin(db: &Db, options: &TransactionOptions) -> Result<Self> {
        db.check_writable()?;
        options.write.validate()?;
        let transaction = Transaction {
            id: db.locks().new_owner(),
            db: db.clone(),
            options: *options,
            state: Mutex::default(),
        };
        if options.snapshot == TransactionSnapshot::AtBegin {
            transaction.take_snapshot(&mut transaction.state.lock());
        }
        Ok(transaction)
    }

    /// The number by which messages about locks name the transaction.
    pub fn id(&self) -> u64 {
        self.id.0
    }

    /// The snapshot, if it has been taken.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.state.lock().snapshot.clone()
    }

    /// The value of `key` as the transaction sees it: the value that it wrote itself, or else the
    /// value in the database as of the snapshot, or now if there is none. The read is not guarded:
    /// a later write of the key by others is no conflict.
    pub fn get(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let state = &mut self.state.lock();
        self.get_in(state, family, key.as_ref())
    }

    /// The same, without reading a value from a blob file.
    ///
    /// # Errors
    /// Those of [`ColumnFamily::get_lazy`].
    pub fn get_lazy(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<LazyValue>> {
        let state = &mut self.state.lock();
        self.used(state, family)?;
        let key = key.as_ref();
        match state.own(family, key) {
            Some(own) => Ok(own?.map(LazyValue::inline)),
            None => family.get_lazy_with(key, &state.read_options(ReadOptions::default())),
        }
    }

    /// The values of many keys, in the order of the keys, each as [`Transaction::get`] returns it,
    /// all as of one moment.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        keys: &[K],
    ) -> Vec<Result<Option<Bytes>>> {
        let state = &mut self.state.lock();
        if let Err(e) = self.used(state, family) {
            return keys.iter().map(|_| Err(e.clone())).collect();
        }
        let own: Vec<Option<Result<Option<Bytes>>>> = keys
            .iter()
            .map(|key| state.own(family, key.as_ref()))
            .collect();
        let others = keys.iter().zip(&own).filter(|(_, own)| own.is_none());
        let others: Vec<&[u8]> = others.map(|(key, _)| key.as_ref()).collect();
        let options = state.read_options(ReadOptions::default());
        let mut read = family.multi_get_with(&others, &options).into_iter();
        let lost = || Err(Error::internal("a lookup has no result"));
        let merged = own.into_iter().map(|own| match own {
            Some(own) => own,
            None => read.next().unwrap_or_else(lost),
        });
        merged.collect()
    }

    /// An iterator over the family as the transaction sees it now: see [`TransactionIterator`]. A
    /// snapshot in `options` is used instead of the transaction's own.
    pub fn iter(
        &self,
        family: &ColumnFamily,
        options: &ReadOptions,
    ) -> Result<TransactionIterator> {
        let (options, own, bounds) = self.cursor_parts(family, options.clone())?;
        Ok(TransactionIterator::new(
            family.iter(&options)?,
            own,
            bounds,
        ))
    }

    /// The parts of a cursor: how the database is read, the transaction's own writes, and its
    /// bounds.
    pub(super) fn cursor_parts(
        &self,
        family: &ColumnFamily,
        options: ReadOptions,
    ) -> Result<(ReadOptions, Index, Bounds)> {
        let state = &mut self.state.lock();
        self.used(state, family)?;
        if options.prefix_same_as_start {
            let why =
                "prefix_same_as_start is not supported in transactions: give ReadOptions::prefix";
            return Err(Error::unsupported(why));
        }
        let bounds = options.bounds(&**family.comparator(), options.prefix.as_deref())?;
        let own = state.written.get(&family.id()).cloned();
        let own = own.unwrap_or_else(|| new_index(family));
        Ok((state.read_options(options), own, bounds))
    }

    /// Reads a key that the transaction is going to write, or that its writes depend on: from now
    /// on a write of the key by others is a conflict. If the transaction is pessimistic, locks the
    /// key exclusively first.
    pub fn get_for_update(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Bytes>> {
        self.guarded_get(family, key.as_ref(), Mode::Exclusive)
    }

    /// The same with a shared lock, which other transactions may have, too.
    pub fn get_for_share(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Bytes>> {
        self.guarded_get(family, key.as_ref(), Mode::Shared)
    }

    /// Makes a write of the key by others a conflict from now on, whether it has a value or not. If
    /// the transaction is pessimistic, locks the key shared.
    pub fn guard(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        let state = &mut self.state.lock();
        let touched = self.touch(state, family, key.as_ref(), Mode::Shared)?;
        touched.keep(&mut state.tracked, Use::Read);
        Ok(())
    }

    /// Takes back one [`Transaction::get_for_update`], [`Transaction::get_for_share`] or
    /// [`Transaction::guard`] of the key. If it was the last one, and the transaction has not
    /// written the key, a write of the key by others is no conflict any more, and its lock is
    /// released. A key that was touched before the last save point stays as it is.
    pub fn undo_get_for_update(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        let state = &mut self.state.lock();
        self.db.check_usable(family)?;
        let key = LockKey::new(family.id(), key.as_ref());
        if state.tracked.undo_read(&key) {
            self.release([&key]);
        }
        Ok(())
    }

    /// Sets `key` to `value` when the transaction commits. Its own reads see it at once.
    pub fn put(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let pending = Pending::Value(Bytes::copy_from_slice(value));
        self.write(family, key, pending, |batch| batch.put(family, key, value))
    }

    /// Changes the value of `key` by an operand for the family's merge operator, when the
    /// transaction commits. Its own reads see the result at once. Cost: unlike
    /// [`ColumnFamily::merge`], a read of the key.
    ///
    /// # Errors
    /// `InvalidArgument` in a family without a merge operator; those of
    /// [`get`](Transaction::get) and of the operator.
    pub fn merge(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.db.check_usable(family)?;
        let operator = family.merge_operator()?;
        let state = &mut self.state.lock();
        let touched = self.touch(state, family, key, Mode::Exclusive)?;
        // The commit finds the columns that are read now, or it fails.
        let before = self.columns_in(state, family, key)?;
        let base = before
            .as_ref()
            .map(|columns| columns.default_value().fetch());
        let base = base.transpose()?;
        let value = full_merge(Some(&*operator), key, base.as_deref(), &[operand])?;
        state.batch.merge(family, key, operand)?;
        touched.keep(&mut state.tracked, Use::Write);
        // An operand changes the default column of an entity.
        let value = Bytes::from(value);
        let pending = match before.filter(WideColumns::has_others) {
            Some(columns) => Pending::Entity(columns.with_default(value.into())),
            None => Pending::Value(value),
        };
        state.insert(family, key, pending);
        Ok(())
    }

    /// Removes `key` when the transaction commits.
    pub fn delete(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.write(family, key, Pending::Deleted, |batch| {
            batch.delete(family, key)
        })
    }

    /// Removes `key` when the transaction commits, under the conditions of
    /// [`ColumnFamily::single_delete`].
    pub fn single_delete(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.write(family, key, Pending::Deleted, |batch| {
            batch.single_delete(family, key)
        })
    }

    /// Not supported: a conflict with a write within a range could not be found. Delete the keys
    /// that an iterator shows, or use [`ColumnFamily::delete_range`], which is a conflict for
    /// transactions that touched a key in the range.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn delete_range(
        &self,
        family: &ColumnFamily,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        let _ = (family, begin, end);
        Err(Error::unsupported(
            "a transaction cannot delete a range of keys: delete each key that an iterator shows, or \
             call ColumnFamily::delete_range without a transaction",
        ))
    }

    /// Remembers the present state for [`Transaction::rollback_to_save_point`]. Save points nest.
    pub fn set_save_point(&self) {
        let state = &mut *self.state.lock();
        state.batch.set_save_point();
        state.tracked.set_save_point();
        state.written_at.push(state.written.clone());
    }

    /// Takes back the effects of the transaction's calls since the last save point, which ends:
    /// writes, guards, and locks on keys that it had not touched before. A shared lock that became
    /// exclusive since stays exclusive.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no save point; `Internal` if the writes are lost: see
    /// [`Transaction::try_commit`].
    pub fn rollback_to_save_point(&self) -> Result<()> {
        let state = &mut *self.state.lock();
        state.check_not_lost()?;
        let released = state.tracked.rollback_to_save_point()?;
        state.batch.rollback_to_save_point()?;
        if let Some(written) = state.written_at.pop() {
            state.written = written;
        }
        if !mutant!(save_point_keeps_locks) {
            self.release(&released);
        }
        Ok(())
    }

    /// Ends the last save point and keeps the effects of the calls since.
    ///
    /// # Errors
    /// As [`Transaction::rollback_to_save_point`].
    pub fn pop_save_point(&self) -> Result<()> {
        let state = &mut *self.state.lock();
        state.check_not_lost()?;
        state.tracked.pop_save_point()?;
        state.batch.pop_save_point()?;
        state.written_at.pop();
        Ok(())
    }

    /// Makes the writes of the transaction visible, all at once, if no key that it touched for
    /// writing or guarded was written by others meanwhile. Locks are released after that.
    ///
    /// # Errors
    /// `Conflict`, which names the first such key: nothing was written, and the transaction is
    /// over. Begin another one and read again. Those of [`Db::write`].
    pub fn commit(self) -> Result<()> {
        // Its end releases the locks, also if the commit panics.
        self.commit_writes()
    }

    /// Commits as [`Transaction::commit`] does, but a transaction that fails goes on as it was,
    /// with its writes, guards, locks and save points. After `Busy` it may be tried again as it is;
    /// after `Conflict`, once the key is taken back to a save point. A transaction that commits
    /// begins anew, with the same options.
    ///
    /// ```
    /// # fn main() -> titan::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
    /// let mut transaction = db.begin(&titan::TransactionOptions::default())?;
    /// transaction.put(&db, "order", "17 apples")?;
    /// transaction.set_save_point();
    /// transaction.put(&db, "last order", "17")?;
    /// db.put("last order", "16")?;
    /// if transaction.try_commit().is_err() {
    ///     transaction.rollback_to_save_point()?;
    ///     transaction.commit()?;
    /// }
    /// assert_eq!(db.get("order")?.unwrap(), "17 apples");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Transaction::commit`]. `Internal` if the thread panicked that committed the
    /// writes, perhaps of another writer: they are lost, and every later commit of the transaction
    /// is an error, too. Begin another one.
    pub fn try_commit(&mut self) -> Result<()> {
        self.commit_writes()?;
        let state = std::mem::take(&mut *self.state.lock());
        self.release(state.tracked.keys());
        if self.options.snapshot == TransactionSnapshot::AtBegin {
            self.take_snapshot(&mut self.state.lock());
        }
        Ok(())
    }

    /// After an error the writes are as before, or lost.
    fn commit_writes(&self) -> Result<()> {
        let (mut batch, conditions) = self.state.lock().take_writes()?;
        let Some(conditions) = conditions else {
            return self.db.check_writable();
        };
        if mutant!(locks_released_before_publication) {
            self.release(self.state.lock().tracked.keys());
        }
        let options = &self.options.write;
        let committed = self.db.write_if(&mut batch, &conditions, options);
        gate!("transaction: committed");
        if committed.is_err() {
            self.state.lock().give_back(batch);
        }
        committed
    }

    /// Forgets the writes of the transaction and releases its locks.
    pub fn rollback(self) {}

    pub(super) fn release<'k>(&self, keys: impl IntoIterator<Item = &'k LockKey>) {
        // A child has a copy of the locks, in which a thread of its parent may hold others for
        // ever.
        if self.options.locks.is_some() && self.db.check_not_inherited().is_ok() {
            self.db.locks().release(self.id, keys);
        }
    }

    fn take_snapshot(&self, state: &mut State) {
        let snapshot = self.db.snapshot();
        state.evidence = Some(snapshot.clone());
        state.snapshot = Some(snapshot);
    }

    /// Takes the snapshot if this is the first use.
    pub(super) fn snapshot_if_due(&self, state: &mut State) {
        let due = self.options.snapshot == TransactionSnapshot::AtFirstUse;
        if due && state.snapshot.is_none() {
            self.take_snapshot(state);
        }
    }

    /// Before a read.
    fn used(&self, state: &mut State, family: &ColumnFamily) -> Result<()> {
        self.db.check_usable(family)?;
        self.snapshot_if_due(state);
        Ok(())
    }

    fn get_in(
        &self,
        state: &mut State,
        family: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<Bytes>> {
        self.used(state, family)?;
        match state.own(family, key) {
            Some(own) => own,
            None => family.get_with(key, &state.read_options(ReadOptions::default())),
        }
    }

    pub(super) fn columns_in(
        &self,
        state: &mut State,
        family: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<WideColumns>> {
        self.used(state, family)?;
        match state.own_columns(family, key) {
            Some(own) => Ok(own),
            None => family.get_entity_with(key, &state.read_options(ReadOptions::default())),
        }
    }

    fn guarded_get(&self, family: &ColumnFamily, key: &[u8], mode: Mode) -> Result<Option<Bytes>> {
        let state = &mut self.state.lock();
        let touched = self.touch(state, family, key, mode)?;
        let value = self.get_in(state, family, key)?;
        touched.keep(&mut state.tracked, Use::Read);
        Ok(value)
    }

    pub(super) fn write(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        pending: Pending,
        add: impl FnOnce(&mut WriteBatch) -> Result<()>,
    ) -> Result<()> {
        let state = &mut self.state.lock();
        let touched = self.touch(state, family, key, Mode::Exclusive)?;
        add(&mut state.batch)?;
        touched.keep(&mut state.tracked, Use::Write);
        state.insert(family, key, pending);
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let state = std::mem::take(&mut *self.state.lock());
        self.release(state.tracked.keys());
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transaction({})", self.id.0)
    }
}
