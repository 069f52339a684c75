//! The example does what it says.

#[path = "../../examples/service.rs"]
mod service;

#[test]
fn the_service_answers() {
    service::main().unwrap();
}
