//! A store on a device of limited size, by the numbers that a volume asks for.
//!
//! Each commit takes room for its values in the log. Moving the log writes its unmoved part to its
//! place and frees the files. Values that are overwritten or deleted are garbage, until the store
//! frees it.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tifs::Result;
use tifs::kv::{Commit, Kv, LogSize, MemoryKv, Pair, Reader, Scan, Space, Transaction};
use tifs::volume::HostSpace;

/// The numbers of the device, and what the store did since the last look.
#[derive(Default)]
pub struct State {
    pub total: u64,
    pub available: u64,
    pub log: u64,
    pub unmoved: u64,
    pub garbage: u64,
    /// The log was to be moved when there was no room for its unmoved part in addition.
    pub stuck: bool,
    pub events: Vec<String>,
}

#[derive(Clone, Default)]
pub struct Device(pub Arc<Mutex<State>>);

/// The store. Its content stays when it is closed.
pub struct DeviceKv {
    kv: MemoryKv,
    device: Device,
}

impl Device {
    pub fn space(&self) -> HostSpace {
        let state = self.0.lock();
        HostSpace {
            total: state.total,
            free: state.available,
            available: state.available,
        }
    }

    pub fn store(&self) -> DeviceKv {
        DeviceKv {
            kv: MemoryKv::new(),
            device: self.clone(),
        }
    }
}

impl Kv for DeviceKv {
    fn begin(&self) -> Result<Box<dyn Transaction + '_>> {
        Ok(Box::new(DeviceTransaction {
            store: self,
            transaction: self.kv.begin()?,
            written: 0,
            replaced: 0,
        }))
    }

    fn snapshot(&self) -> Result<Box<dyn Reader + '_>> {
        self.kv.snapshot()
    }

    fn log_size(&self) -> Result<LogSize> {
        let state = self.device.0.lock();
        Ok(LogSize {
            files: state.log,
            unmoved: state.unmoved,
        })
    }

    fn move_log(&self) -> Result<()> {
        let mut state = self.device.0.lock();
        state.stuck |= state.available < state.unmoved;
        state.available = (state.available + state.log).saturating_sub(state.unmoved);
        (state.log, state.unmoved) = (0, 0);
        state.events.push("log moved".to_owned());
        Ok(())
    }

    fn free_garbage(&self, step: usize) -> Result<bool> {
        let mut state = self.device.0.lock();
        if state.garbage == 0 {
            state.events.push(format!("no garbage at step {step}"));
            return Ok(false);
        }
        let garbage = std::mem::take(&mut state.garbage);
        state.available += garbage;
        state.events.push("garbage freed".to_owned());
        Ok(true)
    }

    fn close(&self) -> Result<()> {
        self.kv.close()
    }
}

struct DeviceTransaction<'a> {
    store: &'a DeviceKv,
    transaction: Box<dyn Transaction + 'a>,
    written: u64,
    replaced: u64,
}

impl DeviceTransaction<'_> {
    fn replace(&mut self, space: Space, key: &[u8]) -> Result<()> {
        let old = self.transaction.get(space, key)?;
        self.replaced += old.map_or(0, |old| old.len() as u64);
        Ok(())
    }
}

impl Reader for DeviceTransaction<'_> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.transaction.get(space, key)
    }

    fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        self.transaction.multi_get(space, keys)
    }

    fn value_lengths(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<usize>>> {
        self.transaction.value_lengths(space, keys)
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
        self.transaction.scan(scan)
    }
}

impl Transaction for DeviceTransaction<'_> {
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.replace(space, key)?;
        self.written += value.len() as u64;
        self.transaction.put(space, key, value)
    }

    fn delete(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.replace(space, key)?;
        self.transaction.delete(space, key)
    }

    fn guard(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.transaction.guard(space, key)
    }

    fn commit(self: Box<Self>) -> Result<Commit> {
        let committed = self.transaction.commit()?;
        if committed == Commit::Committed {
            let mut state = self.store.device.0.lock();
            state.available = state.available.saturating_sub(self.written);
            state.log += self.written;
            state.unmoved += self.written;
            state.garbage += self.replaced;
        }
        Ok(committed)
    }
}
