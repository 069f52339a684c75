//! Measurements from outside the process, the same for every engine, and limits set on
//! it.

pub(crate) mod cgroup;
pub(crate) mod device;
pub(crate) mod disk;
pub(crate) mod fio;
pub(crate) mod machine;
