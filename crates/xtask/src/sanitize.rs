//! `cargo xtask sanitize`: runs the memtable, which has the crate's unsafe code, and the
//! multi-threaded tests under a tool that checks them.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::campaign::conclude;
use crate::rebuild::Rebuild;

/// Runs the memtable and the multi-threaded tests under a sanitizer or valgrind.
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask sanitize asan")]
pub(crate) struct SanitizeArgs {
    tool: Tool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Tool {
    /// AddressSanitizer: memory used out of bounds or after it was freed. Needs a nightly compiler.
    Asan,
    /// ThreadSanitizer: data races. Needs a nightly compiler with `rust-src`.
    Tsan,
    /// Valgrind's memcheck: as AddressSanitizer, and memory that was never written.
    Valgrind,
}

/// The target of the build. It is stated, so that build scripts are not instrumented too.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Set for the tests: they do less, since everything takes much longer.
const SMALL: &str = "TITAN_SMALL_TESTS";

pub(crate) fn main(args: &SanitizeArgs) -> Result<ExitCode, String> {
    let build = match args.tool {
        Tool::Asan => Rebuild::nightly("asan", "-Zsanitizer=address"),
        Tool::Tsan => Rebuild::nightly(
            "tsan",
            "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer",
        ),
        Tool::Valgrind => Rebuild::ordinary(),
    };
    let tally = build.tests(|cargo| {
        cargo.args([
            "--package",
            "titandb",
            "--target",
            TARGET,
            "--lib",
            "--test",
            "it",
        ]);
        cargo.env(SMALL, "1");
        cargo.env(titan_testkit::setup::PATIENCE, "600");
        match args.tool {
            Tool::Asan => {}
            Tool::Tsan => {
                // The library's own locks must be instrumented, too.
                cargo.arg("-Zbuild-std");
                cargo.env("TSAN_OPTIONS", "halt_on_error=1 second_deadlock_stack=1");
            }
            Tool::Valgrind => {
                let runner = "valgrind --quiet --error-exitcode=9 --leak-check=full \
                              --errors-for-leak-kinds=definite \
                              --show-leak-kinds=definite --fair-sched=yes";
                cargo.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner);
            }
        }
        cargo.args(["--", "memtable::", "concurrency::"]);
    });
    Ok(conclude(tally))
}
