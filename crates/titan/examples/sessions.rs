//! Sessions that expire: the engine drops old ones by itself, and reads do not show them before.
//!
//! `cargo run -p titandb --example sessions`

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use titan::{
    Bytes, ColumnFamily, ColumnFamilyOptions, Db, Error, ErrorKind, Options, Result, StdClock,
    SystemClock, TimeToLive,
};

const AGE: Duration = Duration::from_secs(30 * 60);

/// The system's clock, moved forward by hand: this program has no half hour to wait.
#[derive(Default)]
struct Ahead(AtomicU64);

impl Ahead {
    fn minutes_pass(&self, minutes: u64) {
        self.0.fetch_add(minutes * 60, Ordering::Relaxed);
    }

    fn ahead(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

impl SystemClock for Ahead {
    fn monotonic(&self) -> Duration {
        StdClock.monotonic() + self.ahead()
    }

    fn unix_time(&self) -> Duration {
        StdClock.unix_time() + self.ahead()
    }
}

struct Sessions {
    family: ColumnFamily,
    clock: Arc<Ahead>,
}

impl Sessions {
    fn open(path: &Path, clock: &Arc<Ahead>) -> Result<Self> {
        let mut options = Options::default();
        options.db.clock = Arc::clone(clock) as Arc<dyn SystemClock>;
        // Stated at each opening: one without it would keep the sessions for ever.
        let expire = ColumnFamilyOptions {
            compaction_filter: Some(Arc::new(TimeToLive::new(AGE))),
            ..ColumnFamilyOptions::default()
        };
        options.families.insert("sessions".into(), expire);
        let db = Db::open(path, &options)?;
        let family = db.column_family("sessions");
        let missing = || Error::new(ErrorKind::NotFound, "sessions");
        Ok(Sessions {
            family: family.ok_or_else(missing)?,
            clock: Arc::clone(clock),
        })
    }

    fn set(&self, token: &str, user: &str) -> Result<()> {
        let end = (self.clock.unix_time() + AGE).as_secs();
        let value = [&end.to_be_bytes(), user.as_bytes()].concat();
        self.family.put(token, value)
    }

    /// The user of a session. The engine drops a session some time after it has expired, so the
    /// value says when that is.
    fn user(&self, token: &str) -> Result<Option<Bytes>> {
        let Some(value) = self.family.get(token)? else {
            return Ok(None);
        };
        let end = value.first_chunk().copied().map(u64::from_be_bytes);
        let end = end.ok_or_else(|| Error::corruption("a session without an end"))?;
        let lives = self.clock.unix_time().as_secs() < end;
        Ok(lives.then(|| value.slice(8..)))
    }
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let clock = Arc::new(Ahead::default());
    let sessions = Sessions::open(dir.path(), &clock)?;

    sessions.set("4711", "ann")?;
    clock.minutes_pass(20);
    sessions.set("4712", "bob")?;
    assert_eq!(sessions.user("4711")?.ok_or("no session")?, "ann");
    clock.minutes_pass(20);
    assert_eq!(sessions.user("4711")?, None);
    assert_eq!(sessions.user("4712")?.ok_or("no session")?, "bob");

    // Flushes and compactions drop expired sessions by themselves; this program is impatient.
    clock.minutes_pass(120);
    sessions
        .family
        .compact_range(None, None, &Default::default())?;
    assert_eq!(sessions.family.keys(..).count(), 0);
    Ok(())
}
