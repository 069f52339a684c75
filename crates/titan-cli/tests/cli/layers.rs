//! The laws of modules (`titan_testkit::law`).

use titan_testkit::module_laws;

module_laws! {
    "titan-cli",
    circles: &[],
    // Structs that are data, not parts of the program.
    records: &["StepReport"],
    sizes: &[],
}
