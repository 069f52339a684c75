//! A compaction filter: sessions that are dropped some time after they were written.

use std::sync::Arc;
use std::time::Duration;

use titan::{ColumnFamilyOptions, Db, Options, TimeToLive};

#[expect(
    clippy::disallowed_methods,
    reason = "only the engine takes its time from a clock that tests can set"
)]
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), &Options::default())?;
    let sessions = db.create_column_family(
        "sessions",
        ColumnFamilyOptions {
            compaction_filter: Some(Arc::new(TimeToLive::new(Duration::from_secs(1)))),
            ..ColumnFamilyOptions::default()
        },
    )?;
    sessions.put(b"4711", b"alice")?;
    assert!(sessions.contains_key(b"4711")?);

    // Flushes and compactions drop expired values by themselves; this program is impatient.
    let begun = std::time::Instant::now();
    while sessions.contains_key(b"4711")? {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the session is still there"
        );
        std::thread::sleep(Duration::from_millis(200));
        sessions.compact_range(None, None, &Default::default())?;
    }
    assert!(
        begun.elapsed() >= Duration::from_secs(1),
        "it is never dropped before its time"
    );
    Ok(())
}
