//! The method of measurement, its fairness, and the configuration of each engine.

use crate::report::conditions;
use crate::report::document::{Cell, Document, Table};
use crate::results::Report;
use crate::settings::Durability;

pub(super) fn add(document: &mut Document, report: &Report) {
    document.heading(2, "Method and fairness", "method");
    document.list(fairness(report));
    document.heading(2, "How to read the figures", "reading");
    document.list(READING.map(str::to_owned).to_vec());
    document.heading(2, "Engines", "engines");
    let mut table = Table::new("", &[":engine", ":version", ":options", ":notes"]);
    for about in &report.about_engines {
        table.row(vec![
            Cell::engine(&about.name),
            about.version.clone().into(),
            conditions::options(about).into(),
            about.notes.join(" ").into(),
        ]);
    }
    document.table(table);
}

fn fairness(report: &Report) -> Vec<String> {
    let settings = &report.settings;
    let durability = match settings.durability {
        Durability::Buffered => {
            "a write has reached the kernel when it returns, and survives the end of the process; \
             no write waits for the device"
        }
        Durability::Synced => "a write has reached the device when it returns",
    };
    let memory = if settings.memory_limit.is_some() {
        "Memory: each process runs in a cgroup of its own whose limit counts heap and page cache \
         together. An engine that keeps less on its heap has more page cache, and none is helped \
         by memory that others may not use."
    } else {
        "Memory: not limited. If the data fits in it, the device is hardly measured."
    };
    let caches = if settings.drop_caches {
        "Caches: each step is a process of its own, before which the kernel's caches are dropped."
    } else {
        "Caches: each step is a process of its own; the kernel's caches stay, so that what was \
         just written may be read from memory."
    };
    vec![
        format!(
            "Durability: the same for all: {durability}. Exceptions are in the engines' notes."
        ),
        memory.to_owned(),
        caches.to_owned(),
        "Settings: compression, block cache, write buffer and background threads are the same \
         wherever an engine has them; all else is the engine's default, unless its options below \
         say otherwise."
            .to_owned(),
        "Work: the same operations on the same keys and values, by the same program, with as many \
         threads; as many of them in steps that say so, as many as an engine can do in those that \
         go by time. Background work that a step leaves undone is done in the next one, as after a \
         restart; the tables of all steps together have it."
            .to_owned(),
        "Order: engines take turns, and their order changes from round to round, so that drift of \
         the machine affects all of them. The device is measured before each round; if its \
         performance drifts, so will the rest."
            .to_owned(),
        "Measurement: operations, latencies, processor time and memory are measured by the same \
         program in the engine's process, bytes on disk and at the device from outside. Latencies \
         include the choice of the key and the check of the value. Every value that is read \
         is checked against its key. Only the bytes written by kind are reported by the engines."
            .to_owned(),
    ]
}

const READING: [&str; 7] = [
    "Cells have the median of the rounds and, in parentheses, the range. A ratio whose range \
     contains 1 shows no difference.",
    "Ratios are taken round by round, of engines that met the machine in the same state.",
    "Latencies of steps with a fixed rate count from when an operation was due: an engine that \
     falls behind pays for the queue.",
    "Write amplification: bytes at the device, a last sync included, for each byte of keys and \
     values that users wrote.",
    "Space amplification: bytes on disk for each byte of live keys and values; at most: the \
     highest sample.",
    "Memory is the process's own beyond what it had before it opened the database: no \
     pages of files, cached or mapped. Time to open is marked as recovery if the previous process \
     was killed.",
    "Causes, next to losses and wins: for rates and latencies what an operation cost the processor \
     and the device; for write amplification what was written for each byte of users by kind, as the \
     engine counts; for space what is on disk for each live byte. Titan's figures come first.",
];
