//! `titan serve` under transactions of many clients, killed meanwhile.

use std::path::Path;
use std::time::Duration;

use titan_campaigns::Run;
use titan_campaigns::serve::{Round, serve};

#[test]
fn histories_over_the_network_are_snapshot_isolated_across_kills() {
    let run = Run::tonight();
    let round = Round {
        transactions: 2000,
        between_kills: Duration::from_millis(500),
    };
    serve(&run, Path::new(env!("CARGO_BIN_EXE_titan")), 2000, round);
    run.finish(2000);
}
