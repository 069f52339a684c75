//! The device becomes full at a sample of the operations of every workload.

use titan_campaigns::Run;
use titan_campaigns::full::{Scope, full};

#[test]
fn a_device_that_becomes_full_loses_nothing_and_can_be_emptied() {
    let run = Run::once(1);
    full(&run, Scope::SAMPLE);
    run.finish(60);
}
