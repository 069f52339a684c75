use std::path::Path;

use titan_campaigns::Run;
use titan_campaigns::differential::Differential;
use titan_campaigns::differential::peer::Program;
use titan_testkit::requirement;

#[test]
fn titan_and_rocksdb_agree() {
    let program = Program::compile(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let Some(program) = requirement::met("RocksDB's library and g++", program) else {
        return;
    };
    let run = Run::once(1);
    let small = Differential {
        lists: 6,
        operations: 1500,
        ..Differential::new(program)
    };
    small.run(&run);
    run.finish(15_000);
}
