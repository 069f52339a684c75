//! Titan and its peers, side by side on the same work.
fn main() {}
