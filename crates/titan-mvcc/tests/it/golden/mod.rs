//! Behaviour as text: steps of several transactions, and the result of each.
//!
//! Each file of the folders of `tests/golden` is one store in a simulated file system, in the form
//! of [`titan_testkit::golden`]. These are the commands:
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

use std::path::Path;

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

mod order_files {
    titan_testkit::golden_tests! {
        super::Machine,
        "tests/golden/orders",
        async_orders,
        conflicts,
        conversion_orders,
        ended_orders,
        rollback_orders,
        status_orders,
    }
}

mod percolator_files {
    titan_testkit::golden_tests! {
        super::Machine,
        "tests/golden/percolator",
        async_commit,
        cleanup,
        client_reads,
        commit,
        demands,
        fall_back,
        heartbeat,
        one_phase,
        pessimistic,
        pessimistic_demands,
        prewrite,
        resolve_lock,
        rollback,
        status,
        status_actions,
    }
}

mod store_files {
    titan_testkit::golden_tests! {
        super::Machine,
        "tests/golden/store",
        deadlines,
        destroy_range,
        locked_rows,
        old_versions,
        own_transactions,
        readers,
        reopening,
        safe_point,
        scans,
        writers,
    }
}

#[test]
fn every_folder_has_tests() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let folders = ["orders", "percolator", "store"];
    assert_eq!(golden::files(&dir).unwrap(), folders);
}
