use std::path::Path;

use titan_campaigns::Run;
use titan_campaigns::differential::Differential;
use titan_campaigns::differential::peer::Program;

/// If it is set, RocksDB must be installed.
const REQUIRED: &str = "TITAN_TEST_REQUIRES_ROCKSDB";

#[test]
fn titan_and_rocksdb_agree() {
    let program = match Program::compile(Path::new(env!("CARGO_TARGET_TMPDIR"))) {
        Ok(program) => program,
        Err(what) if std::env::var_os(REQUIRED).is_some() => panic!("{what}"),
        Err(what) => {
            println!("left out: {what}");
            return;
        }
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
