//! Where the tests run: file systems that are mounted for one test.
//!
//! Each test enters a [private mount namespace](namespace), so no mount outlives the process of the
//! tests, however it ends.

mod handle;
mod namespace;
mod process;
mod tmpfs;
mod volume;

pub use handle::Handle;
pub use namespace::{enter, without_access_times};
pub use process::{run, start};
pub use tmpfs::Tmpfs;
pub use volume::{TIFS, Volume};
