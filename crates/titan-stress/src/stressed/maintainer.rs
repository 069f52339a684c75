//! Flushes, compactions and syncs on request; plausibility of metrics.

use std::time::Duration;

use fastrand::Rng;
use titan::CompactRangeOptions;
use titan_testkit::failure::{Checked, ensure};
use titan_testkit::ops::Op;

use super::reader::{anyone, is_dropped};
use super::world::World;
use crate::keys::{Family, Key};

/// Runs maintenance until the life ends.
pub(super) fn maintain(world: &World, mut rng: Rng) {
    let mut last_sequence = 0;
    world.keep_on(|| {
        world.rest(Duration::from_millis(25), &mut rng);
        match rng.u8(..8) {
            0 => world.maintain(&Op::SyncWal),
            1 => world.maintain(&Op::FlushAll),
            2 => flush(world, &mut rng),
            3..5 => compact(world, &mut rng),
            5 => Ok(world.db.wait_idle()?),
            _ => metrics(world, &mut last_sequence),
        }
    });
}

fn flush(world: &World, rng: &mut Rng) -> Checked<()> {
    let (actor, family) = anyone(world, rng);
    let Some(handle) = world.family(actor, family) else {
        return Ok(());
    };
    match handle.flush().map_err(Into::into) {
        Err(problem) if is_dropped(family, &problem) => Ok(()),
        flushed => flushed,
    }
}

fn compact(world: &World, rng: &mut Rng) -> Checked<()> {
    let (actor, family) = anyone(world, rng);
    let Some(handle) = world.family(actor, family) else {
        return Ok(());
    };
    let mut bound = |actor| {
        let number = rng.u32(..world.plan.scale.keys);
        rng.bool().then(|| {
            Key {
                family: Family::Own,
                number,
            }
            .bytes(actor)
        })
    };
    let (from, to) = (bound(actor), bound(actor + 1));
    let options = CompactRangeOptions {
        force_bottommost: rng.bool(),
    };
    let compacted = handle.compact_range(from.as_deref(), to.as_deref(), &options);
    match compacted.map_err(Into::into) {
        Err(problem) if is_dropped(family, &problem) => Ok(()),
        compacted => compacted,
    }
}

fn metrics(world: &World, last_sequence: &mut u64) -> Checked<()> {
    let metrics = world.db.metrics();
    ensure!(
        metrics.last_sequence >= *last_sequence,
        "sequence {} after {last_sequence}",
        metrics.last_sequence
    );
    *last_sequence = metrics.last_sequence;
    for family in &metrics.families {
        ensure!(
            family.live_blob_bytes + family.garbage_blob_bytes == family.blob_bytes
                && (family.blob_files == 0) == (family.blob_bytes == 0)
                && family
                    .levels
                    .iter()
                    .all(|l| (l.files == 0) == (l.bytes == 0)),
            "metrics that contradict themselves: {family:?}"
        );
    }
    Ok(())
}
