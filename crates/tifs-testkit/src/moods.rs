//! A volume on a store that fails: operations have no effect or all of it.

use rustix::io::Errno;

use crate::failure::{Checked, Context, Failure};
use crate::fickle::{FAILURE, Shared};
use crate::lockstep::{Lockstep, clean};
use crate::ops::{Op, Ops};
use crate::place::Place;

/// Each call of the store fails once in each operation. Returns how many failed.
pub fn fail_each_call(ops: &Ops) -> Checked<u64> {
    let kv = Shared::default();
    let mut lockstep = Lockstep::new(Place::Fickle(kv.clone()))?;
    let mut failures = 0;
    for (index, step) in ops.0.iter().enumerate() {
        for call in 0.. {
            let before = lockstep.model.clone();
            kv.0.fail_after(call);
            let failed = lockstep.attempt(step).context(step)?;
            if kv.0.spare() {
                break;
            }
            let what = || format!("operation {index}, {step}, call {call}");
            match (failed, &step.op) {
                // What failed was to store when it was read.
                (None, Op::Read { .. }) => lockstep.model = before,
                // The entries before the failure were returned, and those after it by another call.
                (None, Op::List { .. }) => {}
                // What could not be deleted together was deleted one by one.
                (None, Op::Reclaim {}) => {}
                (Some(Errno::IO), _) => {
                    let why = lockstep.world.error.take().map(|e| e.context().to_owned());
                    if why.as_deref() != Some(FAILURE) {
                        return Err(Failure(format!("{}: {why:?}", what())));
                    }
                }
                _ => return Err(Failure(format!("{}: {failed:?}", what()))),
            }
            failures += 1;
            if call % 4 == 0 {
                lockstep.compare().context(what())?;
                clean(&kv).context(what())?;
            }
        }
    }
    lockstep.finish()?;
    Ok(failures)
}
