//! A stretch of a database's life: from an opening to a closing, with every crash point within.

use std::fmt::Write as _;

use titan_testkit::model::Model;
use titan_testkit::ops::{Op, Ops};
use titan_testkit::sim::{CrashPoint, Journal, SimVfs};

use super::cut::{Policy, Promised};
use crate::record::Record;
use crate::recovery::recover;
use crate::settings::Settings;
use crate::store::Store;
use crate::trouble::{Checked, Doing};
use crate::workloads::Workload;

/// What was done to the file system, and what a crash within may leave of it.
pub(super) struct Life {
    pub(super) journal: Journal,
    pub(super) settings: Settings,
    /// Up to here in the journal the database was not open, and what holds is what held before.
    opened_at: usize,
    before: (Record, Promised),
    record: Record,
}

impl Life {
    /// A new database lives through a workload.
    pub(super) fn of(workload: &Workload) -> Checked<Life> {
        let vfs = SimVfs::new();
        let settings = workload.settings;
        let store = Store::open(&vfs, settings).doing("opening")?;
        let before = (store.record.clone(), Promised::default());
        Life::go_on(store, before, &workload.ops)
    }

    /// What a crash of this life left is opened and goes on for a while.
    pub(super) fn after(
        &self,
        image: &SimVfs,
        point: &CrashPoint<'_>,
        policy: Policy,
    ) -> Checked<Life> {
        let (record, promised) = self.allowed(point);
        let store = Store::recovered(image, self.settings).doing("opening")?;
        record.allows(store.record.last(), promised.after(policy))?;
        let ops = continuation(store.record.last());
        Life::go_on(store, (record.clone(), promised.left_by(policy)), &ops)
    }

    fn go_on(mut store: Store, before: (Record, Promised), ops: &[Op]) -> Checked<Life> {
        let opened_at = store.vfs.journal().len();
        store.apply_all(ops)?;
        store.verify()?;
        store.close().doing("closing")?;
        Ok(Life {
            journal: store.vfs.journal(),
            settings: store.settings,
            opened_at,
            before,
            record: store.record,
        })
    }

    /// What may be found after a crash at `point`, and what was promised by then.
    fn allowed(&self, point: &CrashPoint<'_>) -> (&Record, Promised) {
        if point.index() < self.opened_at {
            (&self.before.0, self.before.1)
        } else {
            (&self.record, Promised::at(point))
        }
    }

    /// Recovers what a crash at `point` left, and asks all that is asked of it.
    pub(super) fn check(
        &self,
        image: &SimVfs,
        point: &CrashPoint<'_>,
        policy: Policy,
    ) -> Checked<()> {
        let (record, promised) = self.allowed(point);
        recover(image, &self.settings, record, promised.after(policy)).map(drop)
    }

    /// The newest operations before `point`, for people.
    pub(super) fn tail(&self, point: usize) -> String {
        let start = point.saturating_sub(25);
        let mut text = String::new();
        for (n, op) in self
            .journal
            .ops()
            .iter()
            .enumerate()
            .take(point)
            .skip(start)
        {
            let _ = writeln!(text, "#   {n} {op}");
        }
        text
    }
}

/// What a recovered database is made to do: writes over all its families, synced and not, a
/// flush, a deletion.
fn continuation(found: &Model) -> Vec<Op> {
    let over_all = |write: &dyn Fn(&str) -> String| {
        let writes: Vec<String> = found.families().map(write).collect();
        writes.join("; ")
    };
    let first = over_all(&|f| format!("put {f} w0 1*200; put {f} w1 3*40"));
    let second = over_all(&|f| format!("put {f} w1 5*300; delete {f} w0"));
    let text = format!(
        "batch [{first}]\nsync put default w2 7*150\nflush default\nbatch [{second}]\nput default w3 1*900\n"
    );
    Ops::parse(&text).map(|ops| ops.0).unwrap_or_default()
}
