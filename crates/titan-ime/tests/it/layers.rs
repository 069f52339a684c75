//! The laws of modules (`titan_testkit::law`).

use titan_testkit::module_laws;

module_laws! {
    "titan-ime",
    circles: &[],
    // Structs that are data, not parts of the program.
    records: &["Stats"],
    sizes: &[],
}
