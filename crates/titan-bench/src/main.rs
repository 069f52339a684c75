//! Titan and its peers, side by side on the same work.

#[allow(dead_code)]
mod compare;
mod engine;
#[allow(dead_code)]
mod report;
mod results;
mod settings;
mod work;

fn main() {}
