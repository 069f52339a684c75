//! What is measured from outside, alike for every engine, and what is set for it.

pub(crate) mod cgroup;
pub(crate) mod device;
pub(crate) mod disk;
pub(crate) mod fio;
pub(crate) mod machine;
