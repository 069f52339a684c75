//! One life of a database: from opening to closing, with every crash point in it.

use std::fmt::Write as _;

use titan_testkit::failure::{Checked, Doing};
use titan_testkit::ledger::{End, Ledger};
use titan_testkit::model::Model;
use titan_testkit::ops::{Op, Ops};
use titan_testkit::sim::{CrashPoint, Journal, SimVfs};

use super::cut::Policy;
use crate::recovery::recover;
use crate::settings::Settings;
use crate::store::Store;
use crate::workloads::Workload;

/// The operations on the file system, and the states that a crash during them may leave.
pub(super) struct Life {
    pub(super) journal: Journal,
    pub(super) settings: Settings,
    /// Up to this point of the journal the database was not open, and the state before the life
    /// holds.
    opened_at: usize,
    before: Before,
    ledger: Ledger,
}

/// End of the life before: the operations that must be there until something new is promised.
struct Before {
    ledger: Ledger,
    moment: u64,
    end: End,
}

impl Life {
    /// Runs a workload on a new database.
    pub(super) fn of(workload: &Workload) -> Checked<Life> {
        let vfs = SimVfs::new();
        let settings = workload.settings;
        let store = Store::open(&vfs, settings).doing("opening")?;
        let before = Before {
            ledger: store.ledger.clone(),
            moment: 0,
            end: End::Process,
        };
        Life::go_on(store, before, &workload.ops)
    }

    /// Opens the files that a crash of this life left and runs operations on them.
    pub(super) fn after(
        &self,
        image: &SimVfs,
        point: &CrashPoint<'_>,
        policy: Policy,
    ) -> Checked<Life> {
        let (ledger, moment, end) = self.allowed(point, policy);
        let store = Store::recovered(image, self.settings).doing("opening")?;
        ledger.allows(store.ledger.present(), end, moment)?;
        let ops = continuation(store.ledger.present());
        let before = Before {
            ledger: ledger.clone(),
            moment,
            end,
        };
        Life::go_on(store, before, &ops)
    }

    fn go_on(mut store: Store, before: Before, ops: &[Op]) -> Checked<Life> {
        let opened_at = store.vfs.journal().len();
        store.apply_all(ops)?;
        store.verify()?;
        store.close().doing("closing")?;
        Ok(Life {
            journal: store.vfs.journal(),
            settings: store.settings,
            opened_at,
            before,
            ledger: store.ledger,
        })
    }

    /// Rules for a crash at `point`: the ledger, its moment, and the worst that has ended since
    /// then.
    fn allowed(&self, point: &CrashPoint<'_>, policy: Policy) -> (&Ledger, u64, End) {
        let Before {
            ledger,
            moment,
            end,
        } = &self.before;
        match point.index() < self.opened_at {
            true => (ledger, *moment, policy.end().max(*end)),
            false => (&self.ledger, point.acknowledged(), policy.end()),
        }
    }

    /// Recovers the state after a crash at `point`, and makes all checks of a recovered
    /// database.
    pub(super) fn check(
        &self,
        image: &SimVfs,
        point: &CrashPoint<'_>,
        policy: Policy,
    ) -> Checked<()> {
        let (ledger, moment, end) = self.allowed(point, policy);
        recover(image, &self.settings, ledger, end, moment).map(drop)
    }

    /// The newest operations before `point`, for people to read.
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

/// Operations for a recovered database: synced and unsynced writes to all its families, a
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
