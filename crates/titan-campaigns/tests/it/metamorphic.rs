use std::path::Path;

use titan_campaigns::Run;
use titan_campaigns::metamorphic::{Metamorphic, replay_all};

#[test]
fn configurations_cannot_be_told_apart() {
    let run = Run::once(1);
    let small = Metamorphic {
        lists: 3,
        operations: 2000,
        ..Metamorphic::default()
    };
    small.run(&run);
    run.finish(150_000);
}

#[test]
fn what_was_wrong_once_stays_right() {
    let run = Run::once(0);
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions/metamorphic");
    replay_all(&run, &dir).unwrap();
    run.finish(100);
}
