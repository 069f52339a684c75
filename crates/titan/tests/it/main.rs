//! Tests of the engine through its public face.

mod basics;
mod crash;
mod crash_recovery;
mod fault_sweep;
mod faults;
mod sim;
