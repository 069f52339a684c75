//! Laws that hold for the whole workspace.

#![expect(clippy::unwrap_used, reason = "what fails a test may end it")]

mod commits;
mod words;
