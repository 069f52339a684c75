//! Behaviour as text: the input is operations, the output is what the engine did to the file
//! system.
//!
//! Each file of `tests/golden` is one database in a simulated file system, in the form of
//! [`titan_testkit::golden`]. These are the commands:
//!
//! | command | input | output |
//! |---|---|---|
//! | `create SETTINGS` | | operations on the file system; the settings are those of the campaigns, as text |
//! | `create quietly SETTINGS` | | nothing |
//! | `run` | operations, one per line (`titan_testkit::ops`) | operations on the file system; events |
//! | `crash none`, `crash all` | | what an opening does after the process, or the machine, stopped |
//! | `close`, `downgrade` | | operations on the file system |
//! | `inspect SUFFIX KIND...` | | what `titan inspect` shows of the files with this suffix; with kinds, only items of these |
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
