//! Behaviour as text: the files of `tests/golden`.
//!
//! The input lines of `do` are steps, and each output line is a step with its outcome. Both
//! machines take the steps of [`files`].

mod acl;
mod files;
mod room;
