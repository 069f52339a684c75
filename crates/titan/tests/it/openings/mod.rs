//! The ways to open a directory, and those in which it cannot be opened.

mod forks;
mod in_memory;
mod moved;
mod moved_logs;
mod read_only;
mod unreadable;
