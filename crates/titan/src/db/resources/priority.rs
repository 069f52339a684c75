//! The threads and the memory of the `Env`: how urgent the database's jobs are among those of other
//! databases, whether these are to hurry, and whether its memtables can be flushed.

use crate::db::core::shared::Shared;
use crate::db::core::state::State;
use crate::env::{Class, Priority};

impl Shared {
    /// States the facts that the `Env` needs to serve the database, which has just been evaluated.
    /// `urgent` says whether writes are stalled, or soon will be.
    pub(crate) fn state_priority(&self, state: &State, urgent: bool) {
        let env = &self.opening.env;
        let has_failed = self.failure.get().is_some();
        env.write_buffers
            .set_held_up(has_failed || state.waits_to_flush());
        if has_failed {
            return env.set_priority(Priority::default(), false);
        }
        let lacks_room = state.lacks_room();
        let class = match () {
            () if state.stalls.delays.for_space || state.is_collecting_urgent() || lacks_room => {
                Class::Space
            }
            () if state.is_flush_due() => Class::Flush,
            () if urgent => Class::Level0,
            () => Class::Usual,
        };
        let excess = state.stalls.space_excess;
        // Jobs of other databases need not hurry for one that waits for room, not for threads.
        let delays_others = urgent && !lacks_room;
        env.set_priority(Priority { class, excess }, delays_others);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{Charge, Sealer};
    use crate::error::{Error, Result};
    use crate::{ColumnFamilyId, Db, Env, EnvOptions, Options};

    fn in_env(options: EnvOptions) -> Result<Options> {
        let mut in_env = Options::default();
        in_env.db.env = Some(Env::new(options)?);
        in_env.default.level0_file_num_compaction_trigger = 2;
        in_env.default.level0_slowdown_writes_trigger = 2;
        Ok(in_env)
    }

    #[test]
    fn jobs_of_others_do_not_hurry_for_a_database_that_has_failed_or_lacks_room() {
        let dir = tempfile::tempdir().unwrap();
        let options = in_env(EnvOptions::default()).unwrap();
        let open = |name| Db::open(dir.path().join(name), &options).unwrap();
        let (stuck, other) = (open("stuck"), open("other"));
        let hurry = || other.core.shared.opening.env.is_any_urgent();
        let shared = &stuck.core.shared;
        // So that the threads find nothing to compact.
        let claimed = |is: bool| {
            let mut state = shared.state.lock();
            let family = state.families.get_mut(&ColumnFamilyId::DEFAULT).unwrap();
            family.jobs.manual_compaction = is;
        };
        claimed(true);
        for value in ["1", "2"] {
            stuck.put("a", value).unwrap();
            stuck.put("z", value).unwrap();
            stuck.flush().unwrap();
        }
        shared.update_stalls(shared.state.lock());
        assert!(hurry());
        lack_room_to_compact(shared);
        assert!(!hurry(), "it waits for room");
        shared.try_again([ColumnFamilyId::DEFAULT].into_iter());
        shared.update_stalls(shared.state.lock());
        assert!(hurry());
        shared.failure.set(Error::internal("as told"));
        shared.update_stalls(shared.state.lock());
        assert!(!hurry(), "it has failed");
        claimed(false);
        stuck.resume().unwrap();
        stuck.wait_idle().unwrap();
        other.close().unwrap();
    }

    fn lack_room_to_compact(shared: &Shared) {
        let now = shared.opening.clock.monotonic();
        let mut state = shared.state.lock();
        let family = state.families.get_mut(&ColumnFamilyId::DEFAULT).unwrap();
        let full = Error::internal("as told");
        family.jobs.compactions_wait.failed(now, &full);
        shared.update_stalls(state);
    }

    /// A nearly full device, on which compactions lack room and flushes do not, must not end the
    /// bound on the memory of memtables.
    #[test]
    fn memtables_are_sealed_while_only_compactions_lack_room() {
        let dir = tempfile::tempdir().unwrap();
        let bound = 1 << 20;
        let options = in_env(EnvOptions {
            db_write_buffer_size: bound,
            ..EnvOptions::default()
        });
        let db = Db::open(dir.path(), &options.unwrap()).unwrap();
        let shared = &db.core.shared;
        let account = &shared.opening.env.write_buffers;
        let much = Charge::new(account);
        much.set(bound);
        lack_room_to_compact(shared);
        assert_eq!(account.sealer(), Some(Sealer::Own));

        let mut state = shared.state.lock();
        let full = shared.flush_wait(1, &Error::internal("as told"), Some(1));
        let family = state.families.get_mut(&ColumnFamilyId::DEFAULT).unwrap();
        family.jobs.flush_wait = Some(full);
        shared.update_stalls(state);
        assert_eq!(account.sealer(), None, "a flush lacks room");
        drop(much);
    }
}
