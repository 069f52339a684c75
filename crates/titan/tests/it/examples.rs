//! The examples do what they say.

#[path = "../../examples/basic.rs"]
mod basic;
#[path = "../../examples/batch.rs"]
mod batch;
#[path = "../../examples/iterate.rs"]
mod iterate;
#[path = "../../examples/many_databases.rs"]
mod many_databases;
#[path = "../../examples/transaction.rs"]
mod transaction;
#[path = "../../examples/ttl.rs"]
mod ttl;

#[test]
fn examples_run() {
    basic::main().unwrap();
    batch::main().unwrap();
    iterate::main().unwrap();
    many_databases::main().unwrap();
    transaction::main().unwrap();
    ttl::main().unwrap();
}
