//! A sample of the operations of every workload fails.

use titan_campaigns::Run;
use titan_campaigns::faults::{Scope, faults};

#[test]
fn failing_operations_lose_nothing_and_can_be_healed() {
    let run = Run::once(1);
    faults(&run, Scope::SAMPLE);
    run.finish(400);
}
