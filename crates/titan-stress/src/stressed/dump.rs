//! Reads and reports everything after opening.

use titan::ReadOptions;
use titan_testkit::failure::{CheckFailure, Checked, ensure};
use titan_testkit::model::Model;
use titan_testkit::ops::stamp;

use super::world::World;
use crate::event;
use crate::keys::nothing;

/// Reports the contents of the database, and returns them.
pub(super) fn dump(world: &World) -> Checked<Model> {
    let mut model = nothing();
    for handle in world.db.column_families() {
        let name = handle.name();
        model.create_family(name);
        let options = ReadOptions {
            fill_cache: false,
            ..ReadOptions::default()
        };
        let mut iter = handle.iter(&options)?;
        iter.seek_to_first()?;
        let mut entries = 0_u64;
        while iter.valid() {
            let bytes = iter.value()?.to_vec();
            let value = stamp::read(name, iter.key(), &bytes).map_err(CheckFailure::Wrong)?;
            model.put(name, iter.key(), value.to_string().into_bytes());
            entries += 1;
            iter.next()?;
        }
        iter.seek_to_last()?;
        while iter.valid() {
            entries = entries.wrapping_sub(1);
            iter.prev()?;
        }
        ensure!(
            entries == 0,
            "family {name} has other keys backwards than forwards"
        );
    }
    event::tell_contents(&model, |event| world.out.tell(event));
    Ok(model)
}
