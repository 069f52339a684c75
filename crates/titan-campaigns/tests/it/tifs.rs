//! Lists of operations on volumes of TiFS: a few. The tests of `tifs` have the same world.

use titan_campaigns::Run;
use titan_campaigns::tifs::{replay, tifs};

#[test]
fn volumes_do_what_their_model_does() {
    let run = Run::once(2);
    tifs(&run, 3);
    run.finish(3);
}

#[test]
fn a_regression_is_replayed_from_its_text() {
    let text = "# why\ntrial memory\nmknod 0/a 100644 0 0 1\nwrite 1 0 7*5000\n";
    assert_eq!(replay(text).unwrap(), 2);
    for wrong in ["sync\n", "trial memory\nnothing\n", "trial mounted\nsync\n"] {
        replay(wrong).unwrap_err();
    }
}
