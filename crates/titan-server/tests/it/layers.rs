//! The laws of modules (`titan_testkit::law`).

use titan_testkit::module_laws;

module_laws! {
    "titan-server",
    circles: &[],
    records: &[],
    sizes: &[],
}
