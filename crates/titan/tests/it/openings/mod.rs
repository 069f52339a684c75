//! The ways to open a directory, and those in which it cannot be opened.

mod forks;
mod in_memory;
mod moved;
mod read_only;
mod unreadable;
