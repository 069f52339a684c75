//! Children that are forked while everything goes on: all that they try is refused, and nothing of
//! it is found in the database.
//!
//! They read nothing: another thread may have a lock at the moment of the fork that a read needs.

use std::time::Duration;

use fastrand::Rng;
use titan::{Db, ErrorKind, TransactionOptions, WriteOptions};
use titan_testkit::child::in_child;
use titan_testkit::failure::CheckFailure;

use super::reader::anyone;
use super::world::World;
use crate::keys::{Family, Key};

/// Seconds after which a child is taken for one that waits for ever.
const SECONDS: u32 = 60;

/// Forks children until the life ends.
pub(super) fn fork_children(world: &World, mut rng: Rng) {
    world.keep_on(|| {
        world.rest(Duration::from_millis(200), &mut rng);
        let (actor, _) = anyone(world, &mut rng);
        let number = rng.u32(..world.plan.scale.keys);
        let key = Key {
            family: Family::Own,
            number,
        }
        .bytes(actor);
        let mut of_child = Some(world.db.clone());
        let ended = in_child(SECONDS, || {
            let Some(db) = of_child.take() else {
                return Ok(());
            };
            changes_nothing(&db, &key)
        });
        ended.map_err(|what| CheckFailure::Wrong(format!("a forked child: {what}")))
    });
}

/// Tries in a child what would change the database.
fn changes_nothing(db: &Db, key: &[u8]) -> Result<(), String> {
    let mut batch = titan::WriteBatch::new();
    let added = batch.delete_range(&**db, key, b"\xff");
    added.map_err(|e| e.to_string())?;
    let outcomes = [
        ("put", db.put(key, b"of a child")),
        ("write", db.write(batch, &WriteOptions::synced())),
        ("flush", db.flush_all()),
        ("compact", db.compact_range(None, None, &Default::default())),
        (
            "collect",
            db.collect_garbage(None, None, &Default::default())
                .map(drop),
        ),
        ("begin", db.begin(&TransactionOptions::default()).map(drop)),
        ("sync", db.sync_wal()),
        ("resume", db.resume()),
        ("wait", db.wait_idle()),
        ("close", db.close()),
    ];
    for (what, outcome) in outcomes {
        match outcome {
            Err(e) if e.kind() == ErrorKind::ReadOnly => {}
            // Closed, or stopped by what the campaign does, before the fork.
            Err(e) if matches!(e.kind(), ErrorKind::Closed | ErrorKind::WritesStopped) => {}
            other => return Err(format!("{what}: {other:?}")),
        }
    }
    Ok(())
}
