//! TPC-C: each delivery looks for the first row of a queue, in front of which are the dead rows of
//! all deliveries before.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;
use titan_mvcc::Store;
use titan_workload::keys::scatter;

use super::super::pools::{Job, Work};
use super::super::time::{StoreTime, before};
use super::super::tpcc::scale::Scale;
use super::super::tpcc::{Kind, Mix, load, queue_keys};
use super::{Event, Scenario};

/// See the module.
pub(super) struct Queue {
    pub(super) scale: Scale,
    /// Orders of each district that were delivered before,
    pub(super) history: u32,
    /// in this time of the store.
    pub(super) span: Duration,
    /// Of 100 of its two queries, so many are asked as of an earlier time.
    pub(super) old: u32,
    /// Age, by the clock of the store.
    pub(super) age: Duration,
    /// The group of warehouses that the jobs go to.
    pub(super) spot: AtomicU32,
    /// Keys that were deleted by [`Event::DeleteQueues`].
    pub(super) deleted: Mutex<Vec<Vec<u8>>>,
}

impl Queue {
    pub(super) fn new(scale: Scale, history: u32, span: Duration) -> Self {
        Queue {
            scale,
            history,
            span,
            old: 0,
            age: Duration::ZERO,
            spot: AtomicU32::new(0),
            deleted: Mutex::default(),
        }
    }
}

impl Work for Queue {
    fn read(&self, number: u64, store: &Store) -> Result<Job> {
        let mut random = fastrand::Rng::with_seed(scatter(number));
        let is_old = random.u32(..100) < self.old;
        let mix = Mix::draw(self.scale, self.spot.load(Relaxed), random);
        let kind = mix.kind;
        let scans = matches!(kind, Kind::Delivery | Kind::OrderStatus | Kind::StockLevel);
        let queries = matches!(kind, Kind::OrderStatus | Kind::StockLevel);
        if is_old && queries {
            let at = before(store.now(), self.age).max(store.safe_point());
            mix.read_at(&store.snapshot_at(at)?)?;
            return Ok(Job {
                scans,
                transaction: None,
            });
        }
        let mut transaction = store.begin();
        mix.read(number, &mut transaction)?;
        Ok(Job {
            scans,
            transaction: (!queries).then_some(transaction),
        })
    }
}

impl Scenario for Queue {
    fn load(&self, store: &Store, time: &StoreTime) -> Result<()> {
        let pass = |span| time.pass(span);
        load::load(store, self.scale, self.history, self.span, &pass)
    }

    fn happen(&self, event: Event, store: &Store) -> Result<()> {
        let mut deleted = self.deleted.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::MoveTo(group) => self.spot.store(group, Relaxed),
            Event::DeleteQueues => {
                *deleted = queue_keys(store, self.scale, self.spot.load(Relaxed))?;
                let mut transaction = store.begin();
                deleted.iter().for_each(|key| transaction.delete(key));
                transaction.commit()?;
            }
            Event::FillQueues => {
                let mut transaction = store.begin();
                deleted
                    .drain(..)
                    .for_each(|key| transaction.put(&key, &[0; 8]));
                transaction.commit()?;
            }
            Event::None | Event::Restart | Event::DivideMemory(_) | Event::HoldSnapshot => {}
        }
        Ok(())
    }
}
