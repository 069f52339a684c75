//! Where the tests run: file systems that are mounted for one test.
//!
//! Each test enters a [private mount namespace](namespace), so no mount outlives the process of the
//! tests, however it ends.

mod namespace;
mod tmpfs;
mod volume;

pub use namespace::{enter, without_access_times};
pub use tmpfs::Tmpfs;
pub use volume::Volume;
