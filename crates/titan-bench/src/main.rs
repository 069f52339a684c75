//! Titan and its peers, side by side on the same work.

mod engine;
mod results;
mod settings;
mod work;
mod worker;

fn main() {}
