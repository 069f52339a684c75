//! Behaviour as text: the input is operations, the output lists the operations of the engine on the
//! file system.
//!
//! Each file of `tests/golden` is one database in a simulated file system, in the form of
//! [`titan_testkit::golden`]. These are the commands:
//!
//! | command | input | output |
//! |---|---|---|
//! | `create SETTINGS` | | operations on the file system; the settings are those of the campaigns, as text |
//! | `create quietly SETTINGS` | | nothing |
//! | `run` | operations, one per line (`titan_testkit::ops`) | operations on the file system; events |
//! | `crash none`, `crash all` | | an opening after the process, or the machine, stopped |
//! | `close`, `downgrade` | | operations on the file system |
//! | `inspect SUFFIX KIND...` | | `titan inspect` of such files; with kinds, only those items |
//! | `files` | | names and sizes |
//!
//! After an append to a MANIFEST or a WAL follows the content of its records.

mod events;
mod machine;

titan_testkit::golden_tests! {
    machine::Machine,
    "tests/golden",
    write,
    flush,
    compaction,
    relocation,
    recovery,
    checkpoint,
    downgrade,
    families,
}
