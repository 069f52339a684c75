//! The laws of modules (`titan_testkit::law`).

use titan_testkit::module_laws;

module_laws! {
    "titan-tools",
    circles: &[
        "downgrade: install -> mod",
        "downgrade: install -> plan",
        "forensics: salvage -> scan",
        "inspect: blob -> mod",
        "inspect: log -> mod",
        "inspect: log -> table",
        "inspect: mod -> table",
        "inspect: mod -> text",
        "repair: arrange -> mod",
        "repair: arrange -> survey",
        "repair: blobs -> mod",
        "repair: families -> mod",
        "repair: families -> survey",
        "repair: mod -> survey",
        "repair: mod -> unfinished",
        "repair: survey -> walk",
    ],
    records: &[],
    sizes: &[],
}
