//! Transaction databases of the three policies: the fate of the transactions, and where their
//! writes are when the process ends.

use super::{Case, case, unsupported};

/// Transactions that were all decided, with other writes between.
macro_rules! decided {
    ($end:literal) => {
        concat!(
            "fill default a 0 200 1 10 300
             begin one
             tfill default a 50 100 1 one
             tdelete default a 0 20 1 one
             tfill second t 0 30 1 one
             fill default z 0 20 1 10 300
             prepare one
             begin two
             tfill default b 0 30 1 two
             tdelete default a 150 160 1 two
             prepare two
             commit one
             fill default z 10 30 1 10 300
             rollback two
             begin three
             tfill default c 0 30 1 three
             commit three
             begin four
             tfill default a 110 140 1 four
             tfill default a 110 140 2 four
             prepare four
             commit four
             ",
            $end
        )
    };
}

/// No transactions, and no range deletions, which these databases do not support.
const WRITES: &str = "
    fill default a 0 400 1 10 300
    fill second a 0 200 1 0 100
    flush
    fill default v 0 30 1 1000 6000
    delete default a 0 400 7
    single default v 5 9 1
    kill
    open
    fill default a 100 300 3 10 300
    fill second b 0 50 1 0 3000
    kill";

/// Batches; one overwrites at its start the keys that the previous one wrote at its end.
const OVERWRITES: &str = "
    fill default a 0 16 1 10 300
    fill default a 15 31 1 10 300
    fill default a 30 46 1 10 300
    fill second a 0 16 1 10 300
    delete second a 15 20 1
    begin one
    tfill default a 0 50 1 one
    prepare one
    fill default b 0 16 1 10 300
    commit one
    fill default b 15 20 1 10 300
    kill";

/// Prepared, then committed after the tables of everything else were written, and killed.
const COMMITTED_IN_A_LATER_LOG: &str = "
    fill default a 0 100 1 10 300
    begin one
    tfill default a 50 150 1 one
    prepare one
    fill default z 0 20 1 10 300
    flush
    fill default z 20 30 1 10 300
    flush
    fill second z 0 10 1 10 300
    commit one
    fill default z 30 40 1 10 300
    kill";

/// The same, rolled back.
const ROLLED_BACK_IN_A_LATER_LOG: &str = "
    fill default a 0 100 1 10 300
    begin one
    tfill default a 50 150 1 one
    prepare one
    fill default z 0 20 1 10 300
    flush
    fill default z 20 30 1 10 300
    flush
    rollback one
    fill default z 30 40 1 10 300
    kill";

/// Committed only after the database has been opened again.
const COMMITTED_AFTER_A_KILL: &str = "
    fill default a 0 100 1 10 300
    begin one
    tfill default a 50 150 1 one
    prepare one
    begin two
    tfill second b 50 150 1 two
    prepare two
    kill
    open
    commit one
    rollback two
    fill default z 30 40 1 10 300
    kill";

/// Prepared and undecided, in the only log.
const UNDECIDED: &str = "
    fill default a 0 100 1 10 300
    begin one
    tfill default a 50 150 1 one
    prepare one
    fill default z 0 20 1 10 300
    kill";

/// Prepared and undecided in a log that nothing else needs any more.
const UNDECIDED_IN_AN_OLDER_LOG: &str = "
    fill default a 0 100 1 10 300
    begin one
    tfill default a 50 150 1 one
    prepare one
    fill default z 0 20 1 10 300
    flush
    fill default z 20 40 1 10 300
    fill second z 20 40 1 10 300
    flush
    fill default z 40 50 1 10 300
    kill";

/// The cases of one policy. The policies differ in which records of the log have the writes
/// of a transaction; its fate must not.
macro_rules! of_policy {
    ($policy:literal) => {
        [
            case(concat!($policy, "-closed"), "")
                .kind($policy)
                .steps(decided!("close")),
            case(concat!($policy, "-killed"), "")
                .kind($policy)
                .steps(decided!("kill")),
            case(concat!($policy, "-flushed"), "")
                .kind($policy)
                .steps(decided!("flush\nfill default y 0 10 1 0 10\nkill")),
            case(concat!($policy, "-no-transactions"), "")
                .kind($policy)
                .steps(WRITES),
            case(concat!($policy, "-overwrites"), "")
                .kind($policy)
                .steps(OVERWRITES),
            case(concat!($policy, "-in-a-later-log"), "")
                .kind($policy)
                .steps(COMMITTED_IN_A_LATER_LOG),
            case(concat!($policy, "-rolled-back-in-a-later-log"), "")
                .kind($policy)
                .steps(ROLLED_BACK_IN_A_LATER_LOG),
            case(concat!($policy, "-after-a-kill"), "")
                .kind($policy)
                .steps(COMMITTED_AFTER_A_KILL),
            case(concat!($policy, "-undecided"), "")
                .kind($policy)
                .steps(UNDECIDED)
                .expect(unsupported("neither committed nor rolled back")),
            case(concat!($policy, "-undecided-in-an-older-log"), "")
                .kind($policy)
                .steps(UNDECIDED_IN_AN_OLDER_LOG)
                .expect(unsupported("neither committed nor rolled back")),
        ]
    };
}

pub(super) const COMMITTED: &[Case] = &of_policy!("committed");
pub(super) const PREPARED: &[Case] = &of_policy!("prepared");
pub(super) const UNPREPARED: &[Case] = &of_policy!("unprepared");

pub(super) const OTHERS: &[Case] = &[
    case(
        "committed-blobs",
        "enable_blob_files=true min_blob_size=100",
    )
    .kind("committed")
    .steps(decided!("flush\ncompact\nkill")),
    case("prepared-compressed-log", "")
        .since(7, 10)
        .kind("prepared")
        .db("wal_compression=kZSTD recycle_log_file_num=0")
        .steps(COMMITTED_AFTER_A_KILL),
    case("optimistic", "").kind("optimistic").steps(
        "fill default a 0 200 1 10 300
         begin one
         tfill default a 50 100 1 one
         tdelete default a 0 20 1 one
         commit one
         begin two
         tfill second a 50 100 1 two
         rollback two
         kill",
    ),
    case("with-time-to-live", "").kind("ttl").steps(WRITES),
];
