//! A short run of the mode without special requirements.

use std::path::Path;

use titan_campaigns::Run;
use titan_stress::{Mode, stress};

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    let run = Run::once(11);
    stress(
        &run,
        &[Mode::Kill],
        Path::new(env!("CARGO_BIN_EXE_titan-stress")),
    );
    run.finish(12);
}
