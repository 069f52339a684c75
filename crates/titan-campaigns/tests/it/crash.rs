//! Crashes at a sample of the operations of every workload (WAL-1).

use titan_campaigns::Run;
use titan_campaigns::crash::{Scope, crash};

#[test]
fn crashes_leave_what_was_promised() {
    let run = Run::once(1);
    crash(&run, Scope::SAMPLE);
    run.finish(2000);
}
