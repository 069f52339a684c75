//! Reads and reports everything after opening.

use titan::ReadOptions;

use super::world::{Problem, Step, World, ensure};
use crate::event;
use crate::op::{Family, Key};
use crate::state::State;

/// Reports the contents of every actor's keys, and returns them.
pub(super) fn dump(world: &World) -> Step<Vec<State>> {
    let mut states = vec![State::default(); world.plan.scale.actors()];
    for handle in world.db.column_families() {
        let (owner, family) = identify(world, handle.name())?;
        if let Some(owner) = owner.and_then(|owner| states.get_mut(owner)) {
            owner.own = true;
        }
        let options = ReadOptions {
            fill_cache: false,
            ..ReadOptions::default()
        };
        let mut iter = handle.iter(&options)?;
        iter.seek_to_first()?;
        let mut entries = 0_u64;
        while iter.valid() {
            let parsed = Key::parse(iter.key());
            let ours = parsed.filter(|(actor, _)| owner.is_none_or(|owner| owner == *actor));
            let state =
                ours.and_then(|(actor, number)| Some((actor, number, states.get_mut(actor)?)));
            let Some((actor, number, state)) = state else {
                let name = iter.key().escape_ascii();
                let what = format!("family {} has a key '{name}'", handle.name());
                return Err(Problem::Violation(what));
            };
            let key = Key { family, number };
            let cell = world.cell(actor, key, &iter.value()?)?;
            state.cells.insert(key, cell);
            entries += 1;
            iter.next()?;
        }
        iter.seek_to_last()?;
        while iter.valid() {
            entries = entries.wrapping_sub(1);
            iter.prev()?;
        }
        ensure(entries == 0, || {
            format!(
                "family {} has other keys backwards than forwards",
                handle.name()
            )
        })?;
    }
    for (actor, state) in states.iter().enumerate() {
        let cells: Vec<_> = state
            .cells
            .iter()
            .map(|(key, cell)| (*key, *cell))
            .collect();
        event::found(actor, state.own, &cells)
            .iter()
            .for_each(|e| world.out.tell(e));
    }
    Ok(states)
}

/// The actor that owns this family, if it is an actor's own, and the kind of family.
fn identify(world: &World, name: &str) -> Step<(Option<usize>, Family)> {
    let shared = Family::SHARED.into_iter().find(|f| f.name(0) == name);
    let owner = (0..world.plan.scale.actors()).find(|&actor| Family::Own.name(actor) == name);
    match (shared, owner) {
        (Some(family), _) => Ok((None, family)),
        (None, Some(owner)) => Ok((Some(owner), Family::Own)),
        (None, None) => Err(Problem::Violation(format!("there is a family '{name}'"))),
    }
}
