//! The safe points of clients' garbage collection.
//!
//! A client moves the *safe point of the cluster*: no reader needs older versions. *Services* keep
//! safe points of their own for a time; while one lasts, the store keeps the versions that it
//! needs. All are durable: a service that asked for an hour has it over a restart.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use parking_lot::Mutex;
use titan::{Db, ReadOptions, WriteBatch, WriteOptions};
use titan_mvcc::{Hold, Store, Timestamp};

use crate::error::Result;

/// The key of the safe point of the cluster.
const CLUSTER: &[u8] = b"gc safe point";
/// What the keys of services begin with.
const SERVICE: &[u8] = b"gc service/";

/// The safe points of a node.
pub(crate) struct SafePoints {
    db: Db,
    store: Store,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cluster: u64,
    services: BTreeMap<Bytes, Service>,
}

/// The safe point of a service.
struct Service {
    at: u64,
    /// Seconds since 1970.
    until: u64,
    /// Keeps the store's safe point. `None` if that has passed `at` already.
    _hold: Option<Hold>,
}

/// The oldest safe point of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oldest {
    pub(crate) service: Bytes,
    pub(crate) at: u64,
    /// Seconds.
    pub(crate) ttl: i64,
}

impl SafePoints {
    /// Loads the safe points, and holds the store's safe point for services that have not expired.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn open(db: Db, store: Store) -> Result<Self> {
        let mut state = State {
            cluster: db.get(CLUSTER)?.map_or(0, |stored| number(&stored, 0)),
            ..State::default()
        };
        let mut stored = db.iter(&ReadOptions::default())?;
        stored.seek(SERVICE)?;
        while stored.valid() {
            let Some(name) = stored.key().strip_prefix(SERVICE) else {
                break;
            };
            let name = Bytes::copy_from_slice(name);
            let value = stored.value()?;
            let service = Service::new(&store, number(&value, 0), number(&value, 8));
            state.services.insert(name, service);
            stored.next()?;
        }
        let state = Mutex::new(state);
        Ok(SafePoints { db, store, state })
    }

    /// The safe point of the cluster.
    pub(crate) fn cluster(&self) -> u64 {
        self.state.lock().cluster
    }

    /// Moves the safe point of the cluster forward, and the store's behind it. Returns the present
    /// one. An earlier one changes nothing.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn advance(&self, to: u64) -> Result<u64> {
        let mut state = self.state.lock();
        self.drop_expired(&mut state)?;
        if to > state.cluster {
            let mut batch = WriteBatch::new();
            batch.put(&*self.db, CLUSTER, to.to_be_bytes())?;
            self.db.write(batch, &WriteOptions::synced())?;
            state.cluster = to;
        }
        let cluster = state.cluster;
        drop(state);
        let to = Timestamp(cluster).min(self.store.now());
        match self.store.advance_safe_point(to) {
            Ok(_) | Err(titan_mvcc::Error::SafePointBackwards { .. }) => Ok(cluster),
            Err(e) => Err(e.into()),
        }
    }

    /// Sets the safe point of a service for a time, or ends it if `ttl` is not positive. One before
    /// the oldest is refused: it changes nothing. Returns the oldest.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn set_service(&self, service: Bytes, at: u64, ttl: i64) -> Result<Oldest> {
        let mut state = self.state.lock();
        self.drop_expired(&mut state)?;
        let key = [SERVICE, &service].concat();
        let mut batch = WriteBatch::new();
        if ttl <= 0 {
            batch.delete(&*self.db, key)?;
            self.db.write(batch, &WriteOptions::synced())?;
            state.services.remove(&service);
        } else if at >= state.oldest().map_or(0, |oldest| oldest.at) {
            let until = seconds_now().saturating_add(ttl.unsigned_abs());
            let value = [at.to_be_bytes(), until.to_be_bytes()].concat();
            batch.put(&*self.db, key, value)?;
            self.db.write(batch, &WriteOptions::synced())?;
            let held = Service::new(&self.store, at, until);
            state.services.insert(service, held);
        }
        Ok(state.oldest().unwrap_or_default())
    }

    /// Forgets services whose time is over.
    fn drop_expired(&self, state: &mut State) -> Result<()> {
        let now = seconds_now();
        let mut batch = WriteBatch::new();
        let expired =
            |(name, service): (&Bytes, &Service)| (service.until <= now).then(|| name.clone());
        let expired: Vec<Bytes> = state.services.iter().filter_map(expired).collect();
        for name in &expired {
            batch.delete(&*self.db, [SERVICE, name].concat())?;
        }
        if !expired.is_empty() {
            self.db.write(batch, &WriteOptions::default())?;
            state.services.retain(|name, _| !expired.contains(name));
        }
        Ok(())
    }

    /// Ends the holds of services whose time is over; called now and then.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn expire(&self) -> Result<()> {
        self.drop_expired(&mut self.state.lock())
    }
}

impl Service {
    fn new(store: &Store, at: u64, until: u64) -> Self {
        Service {
            at,
            until,
            _hold: store.hold("service", Timestamp(at)).ok(),
        }
    }
}

impl State {
    fn oldest(&self) -> Option<Oldest> {
        let now = seconds_now();
        let (name, service) = self.services.iter().min_by_key(|(_, service)| service.at)?;
        Some(Oldest {
            service: name.clone(),
            at: service.at,
            ttl: i64::try_from(service.until.saturating_sub(now)).unwrap_or(i64::MAX),
        })
    }
}

/// A number of a record; zero if the record is too short.
fn number(stored: &[u8], from: usize) -> u64 {
    let bytes = stored.get(from..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn seconds_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or(Duration::ZERO).as_secs()
}
