//! The laws of modules (`titan_testkit::law`).

use titan_testkit::module_laws;

module_laws! {
    "titan-bench",
    circles: &[
        "compare: judgements -> mod",
        "compare: mod -> rankings",
        "engine: fjall -> mod",
        "engine: lmdb -> mod",
        "engine: mod -> redb",
        "engine: mod -> rocksdb",
        "engine: mod -> titan",
        "features: counters -> mod",
        "features: hook -> mod",
        "features: mod -> mvcc",
        "features: mod -> prefixes",
        "features: mod -> transactions",
        "ime: results -> targets",
        "report/content: mod -> steps",
        "report/content: mod -> verdicts",
        "report/content: charts -> steps",
        "report/plots: mod -> style",
        "run: mod -> process",
        "work: catalog -> profile",
        "worker: db_bench -> mod",
        "worker: mod -> step",
    ],
    // Structs that are data, not parts of the program.
    records: &["Figures", "Measured", "Report"],
    sizes: &[],
}
