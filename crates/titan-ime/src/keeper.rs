//! What keeps a cache in order: it has what is shared, and the store, which only loads and maintenance need.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use titan::ColumnFamily;
use titan_mvcc::{Store, entries};

use crate::audit::{AuditReport, Engine};
use crate::chooser::Chooser;
use crate::error::Result;
use crate::keys::EncodedRange;
use crate::load::{Kind, Load, Progress};
use crate::shared::Shared;

/// A gap is given up if it has more leaves of rows than this.
const LEAVES_OF_GAP: usize = 16;

/// See the module.
#[derive(Clone)]
pub(crate) struct Keeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Store,
    pub(crate) family: ColumnFamily,
    pub(crate) safe_lag: Duration,
    pub(crate) audited_per_mille: u32,
    /// None if the program says what is held.
    pub(crate) chooser: Option<Arc<Chooser>>,
}

impl Keeper {
    /// Looks at the readers of the store.
    pub(crate) fn look(&self) {
        self.shared.look(&self.store, self.safe_lag);
    }

    /// Begins to load a range of keys.
    pub(crate) fn begin_load(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        kind: Kind,
    ) -> Result<Load> {
        self.look();
        let lower = from.map(entries::encode_key).unwrap_or_default();
        self.begin_load_of((lower, to.map(entries::encode_key)), kind)
    }

    /// The same for a range of encoded keys, without a look.
    pub(crate) fn begin_load_of(&self, range: EncodedRange, kind: Kind) -> Result<Load> {
        Load::begin(&self.shared, self.store.db(), &self.family, range, kind)
    }

    /// All that is due.
    pub(crate) fn maintain(&self) {
        self.look();
        self.load_gaps();
        self.shared.maintain();
        if let Some(chooser) = &self.chooser {
            chooser.look(self);
        }
        self.with_engine(|engine| self.shared.audit_some(self.audited_per_mille, engine));
    }

    /// Compares everything with the engine.
    pub(crate) fn audit(&self) -> Result<AuditReport> {
        self.with_engine(|engine| self.shared.audit(engine))
    }

    fn with_engine<T>(&self, audit: impl FnOnce(&Engine<'_>) -> T) -> T {
        audit(&Engine {
            db: self.store.db(),
            family: &self.family,
            safe_point: &|| self.store.safe_point(),
        })
    }

    /// Remembers what is held, for the next opening.
    pub(crate) fn remember(&self) {
        if let Some(chooser) = &self.chooser {
            chooser.remember(self);
        }
    }

    /// Loads the gaps that scans have met, while there is room.
    fn load_gaps(&self) {
        let budget = &self.shared.budget;
        for gap in self.shared.gaps.take() {
            if budget.used() < budget.limit() / 4 * 3 && self.load_gap(gap).is_ok_and(|held| held) {
                self.shared.counters.gaps.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Loads a gap. An error is one of a load: it overlaps another one by now, does not fit, or cannot be read. Then
    /// scans go on as before. False if it is no gap any more.
    fn load_gap(&self, gap: EncodedRange) -> Result<bool> {
        let mut load = self.begin_load_of(gap, Kind::Gap)?;
        while load.leaves() <= LEAVES_OF_GAP {
            if load.step()? == Progress::Done {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
