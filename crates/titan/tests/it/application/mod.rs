//! Code of the application that the engine calls.

mod collectors;
mod hooks;
mod listeners;
mod merges;
