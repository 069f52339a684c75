//! Behaviour as text: steps of several transactions, and the result of each.
//!
//! Each file of `tests/golden` is one store in a simulated file system, in the form of
//! [`titan_testkit::golden`]. These are the commands:
//!
//! - `open SETTING...` opens a new store. The settings are `two-phases`, `no-async` and `wait:S`.
//! - `run` takes steps, one a line (`steps`), and prints each with its result.
//! - `orders SETTING...` takes steps of several actors (`orders`), and prints the outcomes of all
//!   orders of their steps, each on a new store.
//!
//! After each command the store is checked, and each read and scan is repeated: at a timestamp they
//! always find the same. Repeated reads resolve locks as the first ones do. So a later command may
//! find a lock pushed, or ended, that no step of its text has met.

mod answers;
mod names;
mod orders;
mod requests;
mod steps;
mod words;

use titan_testkit::golden;

use steps::World;

/// The store of one file.
#[derive(Default)]
struct Machine {
    world: World,
}

impl golden::Machine for Machine {
    fn perform(&mut self, command: &str, input: &[&str]) -> Vec<String> {
        let (name, settings) = command.split_once(' ').unwrap_or((command, ""));
        match name {
            "open" => {
                self.world = World::new(settings);
                Vec::new()
            }
            "run" => {
                let step = |line: &&str| format!("{line} -> {}", self.world.step(line));
                let results = input.iter().map(step).collect();
                self.world.check();
                results
            }
            "orders" => orders::outcomes(settings, input),
            _ => panic!("unknown command: {command}"),
        }
    }
}

titan_testkit::golden_tests! {
    Machine,
    "tests/golden",
    async_commit,
    async_orders,
    cleanup,
    client_reads,
    commit,
    conflicts,
    conversion_orders,
    deadlines,
    demands,
    destroy_range,
    ended_orders,
    fall_back,
    heartbeat,
    locked_rows,
    old_versions,
    one_phase,
    own_transactions,
    pessimistic,
    pessimistic_demands,
    prewrite,
    readers,
    reopening,
    resolve_lock,
    rollback,
    rollback_orders,
    safe_point,
    scans,
    status,
    status_actions,
    status_orders,
    writers,
}
