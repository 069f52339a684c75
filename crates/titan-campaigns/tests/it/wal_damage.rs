//! Damage at a sample of the bytes of WAL files, in each recovery mode.

use titan_campaigns::Run;
use titan_campaigns::wal_damage::{Scope, wal_damage};

#[test]
fn damage_of_what_was_synced_is_no_end_of_the_log() {
    let run = Run::once(1);
    wal_damage(&run, Scope::SAMPLE);
    run.finish(500);
}
