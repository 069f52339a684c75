//! The safe points of clients' garbage collection.
//!
//! A client moves the *safe point of the cluster*: no reader needs older versions. *Services* keep
//! safe points of their own for a time; while one lasts, the store keeps the versions that it
//! needs. All are durable: a service that asked for an hour has it over a restart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use titan::{Db, ReadOptions, SystemClock, WriteBatch, WriteOptions};
use titan_mvcc::{Hold, Store, Timestamp};

use super::numbers;
use crate::error::Result;

/// The key of the safe point of the cluster.
const CLUSTER: &[u8] = b"gc safe point";
/// The beginning of the keys of services.
const SERVICE: &[u8] = b"gc service/";

/// The service whose safe point is the store's own, by the name that clients know.
const GARBAGE_COLLECTOR: &str = "gc_worker";

/// The safe points of a node.
pub(crate) struct SafePoints {
    db: Db,
    store: Store,
    clock: Arc<dyn SystemClock>,
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
    /// Keeps the store's safe point.
    _hold: Hold,
}

/// The oldest safe point of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oldest {
    pub(crate) service: Bytes,
    pub(crate) at: u64,
    /// Seconds.
    pub(crate) ttl: i64,
}

/// The oldest safe point of a service whose time is not over `now`, since 1970. The store is to
/// hold it from the opening on.
///
/// # Errors
/// Those of the engine; `Corruption`.
pub(crate) fn held_at(db: &Db, now: Duration) -> Result<Option<Timestamp>> {
    let services = stored_services(db)?.into_iter();
    let lasting = services.filter(|(_, _, until)| *until > now.as_secs());
    Ok(lasting.map(|(_, at, _)| Timestamp(at)).min())
}

/// The names, safe points and ends of the services on disk.
fn stored_services(db: &Db) -> Result<Vec<(Bytes, u64, u64)>> {
    let mut services = Vec::new();
    let mut stored = db.iter(&ReadOptions::default())?;
    stored.seek(SERVICE)?;
    while stored.valid() {
        let key = Bytes::copy_from_slice(stored.key());
        let Some(name) = key.strip_prefix(SERVICE) else {
            break;
        };
        let value = stored.value()?;
        let number = |position| numbers::decode(&value, position, &key);
        services.push((key.slice_ref(name), number(0)?, number(1)?));
        stored.next()?;
    }
    Ok(services)
}

impl SafePoints {
    /// Loads the safe points, and holds the store's safe point for services whose time is not over.
    /// A service that the store's safe point has passed is forgotten.
    ///
    /// # Errors
    /// Those of the engine; `Corruption`.
    pub(crate) fn open(db: Db, store: Store, clock: Arc<dyn SystemClock>) -> Result<Self> {
        let mut state = State {
            cluster: numbers::get(&db, CLUSTER)?.unwrap_or_default(),
            ..State::default()
        };
        for (name, at, until) in stored_services(&db)? {
            if let Ok(hold) = store.hold("service", Timestamp(at)) {
                let service = Service {
                    at,
                    until,
                    _hold: hold,
                };
                state.services.insert(name, service);
            }
        }
        drop(store.take_opening_hold());
        Ok(SafePoints {
            db,
            store,
            clock,
            state: Mutex::new(state),
        })
    }

    /// Seconds since 1970.
    fn now(&self) -> u64 {
        self.clock.unix_time().as_secs()
    }

    /// The safe point of the cluster, or that of the store if it is later.
    pub(crate) fn present(&self) -> u64 {
        let cluster = self.state.lock().cluster;
        cluster.max(self.store.safe_point().0)
    }

    /// The names, safe points and ends of the services.
    pub(crate) fn services(&self) -> Vec<(Bytes, u64, u64)> {
        let state = self.state.lock();
        let services = state.services.iter();
        let services = services.map(|(name, service)| (name.clone(), service.at, service.until));
        services.collect()
    }

    /// Moves the safe point of the cluster forward, and the store's up to it. Returns the present
    /// one. An earlier one changes nothing.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn advance(&self, to: u64) -> Result<u64> {
        let mut state = self.state.lock();
        self.drop_expired(&mut state)?;
        if to > state.cluster {
            numbers::set(&self.db, CLUSTER, to)?;
            state.cluster = to;
        }
        let cluster = state.cluster;
        drop(state);
        advance_store(&self.store, Timestamp(cluster))?;
        Ok(cluster)
    }

    /// Sets the safe point of a service for a time, or ends it if `ttl` is not positive. One before
    /// the oldest, or before the store's, is refused: it changes nothing. Returns the oldest.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn set_service(&self, service: Bytes, at: u64, ttl: i64) -> Result<Oldest> {
        let mut state = self.state.lock();
        self.drop_expired(&mut state)?;
        // A slice would keep all of the request.
        let service = Bytes::copy_from_slice(&service);
        let key = [SERVICE, &service].concat();
        let mut batch = WriteBatch::new();
        if ttl <= 0 {
            batch.delete(&*self.db, key)?;
            self.db.write(batch, &WriteOptions::synced())?;
            state.services.remove(&service);
        } else if at >= state.oldest(self.now()).map_or(0, |oldest| oldest.at) {
            // ORDER: held before the record promises it.
            let hold = match self.store.hold("service", Timestamp(at)) {
                Ok(hold) => hold,
                Err(titan_mvcc::Error::BeforeSafePoint { safe_point, .. }) => {
                    return Ok(Oldest {
                        service: GARBAGE_COLLECTOR.into(),
                        at: safe_point.0,
                        ttl: i64::MAX,
                    });
                }
                Err(e) => return Err(e.into()),
            };
            let until = self.now().saturating_add(ttl.unsigned_abs());
            let value = [at.to_be_bytes(), until.to_be_bytes()].concat();
            batch.put(&*self.db, key, value)?;
            self.db.write(batch, &WriteOptions::synced())?;
            let held = Service {
                at,
                until,
                _hold: hold,
            };
            state.services.insert(service, held);
        }
        Ok(state.oldest(self.now()).unwrap_or_default())
    }

    /// Forgets services whose time is over.
    fn drop_expired(&self, state: &mut State) -> Result<()> {
        let now = self.now();
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

/// Moves the safe point of the store forward, at most to the present. An earlier one changes
/// nothing.
///
/// # Errors
/// Those of [`Store::advance_safe_point`].
pub(crate) fn advance_store(store: &Store, to: Timestamp) -> titan_mvcc::Result<()> {
    match store.advance_safe_point(to.min(store.now())) {
        Ok(_) | Err(titan_mvcc::Error::SafePointBackwards { .. }) => Ok(()),
        Err(e) => Err(e),
    }
}

impl State {
    fn oldest(&self, now: u64) -> Option<Oldest> {
        let (name, service) = self.services.iter().min_by_key(|(_, service)| service.at)?;
        Some(Oldest {
            service: name.clone(),
            at: service.at,
            ttl: i64::try_from(service.until.saturating_sub(now)).unwrap_or(i64::MAX),
        })
    }
}
