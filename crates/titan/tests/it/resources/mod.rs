//! The limits of sizes, of descriptors and of the room on the device.

mod descriptors;
mod full;
mod limits;
