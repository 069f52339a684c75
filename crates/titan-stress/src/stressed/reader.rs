//! Reads any actor's keys while they change, and the sums of the banks.

use std::collections::{HashMap, HashSet};

use fastrand::Rng;
use titan::ErrorKind;
use titan_testkit::failure::{CheckFailure, Checked, ensure};

use super::reads::{Found, Window};
use super::world::World;
use crate::keys::{self, BANK, EACH, Family, Key};
use crate::plan::choose;

/// Reads until the life ends. `banks` are the actors that have accounts.
pub(super) fn read(world: &World, mut rng: Rng, mut banks: HashSet<usize>) {
    let mut seen = HashMap::new();
    world.keep_on(|| match rng.u8(..4) {
        0 => bank(world, &mut rng, &mut banks),
        _ => window(world, &mut rng, &mut seen),
    });
}

/// Every value read has been written before, and no key ever goes back to an older
/// version.
fn window(world: &World, rng: &mut Rng, seen: &mut HashMap<(usize, Key), u64>) -> Checked<()> {
    let (actor, family) = anyone(world, rng);
    let Some(handle) = world.family(actor, family) else {
        return Ok(());
    };
    let window = Window::any(actor, family, world.plan.scale.keys, rng);
    let found = match world.look(&handle, &window, None, rng) {
        Err(problem) if is_dropped(family, &problem) => return Ok(()),
        found => found?,
    };
    let newest = world.newest(actor);
    for (key, value) in found {
        let version = keys::version(value);
        ensure!(
            version <= newest,
            "{key:?} of actor {actor} holds version {version}, not begun yet"
        );
        let last = seen.entry((actor, key)).or_insert(0);
        ensure!(
            version >= *last,
            "{key:?} of actor {actor} holds version {version} after {last} was read"
        );
        *last = version;
    }
    Ok(())
}

/// Once an actor has accounts, their sum never changes, over all families.
fn bank(world: &World, rng: &mut Rng, banks: &mut HashSet<usize>) -> Checked<()> {
    let actor = rng.usize(..world.plan.scale.writers);
    let snapshot = world.db.snapshot();
    let mut found = Found::new();
    for family in Family::SHARED {
        if let Some(handle) = world.family(actor, family) {
            let window = Window::accounts(actor, family);
            found.extend(world.look(&handle, &window, Some(&snapshot), rng)?);
        }
    }
    let sum: u64 = found.iter().map(|(_, value)| keys::amount(*value)).sum();
    let all = found.len() == EACH as usize && sum == BANK;
    let none = found.is_empty() && !banks.contains(&actor);
    ensure!(
        all || none,
        "the accounts of actor {actor} hold {sum} at {snapshot:?}: {found:?}"
    );
    if all {
        banks.insert(actor);
    }
    Ok(())
}

/// Any actor that has keys, and one of its families.
pub(super) fn anyone(world: &World, rng: &mut Rng) -> (usize, Family) {
    let actor = rng.usize(..=world.plan.scale.writers);
    let family = match actor == world.plan.scale.unlogged() {
        true => Family::Own,
        false => choose(rng, &Family::ALL),
    };
    (actor, family)
}

/// Whether the family was dropped between finding it and reading it.
pub(super) fn is_dropped(family: Family, problem: &CheckFailure) -> bool {
    let refused =
        matches!(problem, CheckFailure::Failed(e) if e.kind() == ErrorKind::InvalidArgument);
    family == Family::Own && refused
}
