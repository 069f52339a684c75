//! Titan and its peers, side by side on the same work.
//!
//! | module | does |
//! |---|---|
//! | [`cli`] | takes what is asked for |
//! | [`settings`] | says what is the same for every engine |
//! | [`work`] | says what the work is: workloads, steps, keys, values |
//! | [`engine`] | has the engines behind one interface |
//! | [`worker`] | is the process that does one step with one engine |
//! | [`run`] | starts such processes in turn, and watches them |
//! | [`measure`] | looks at the device, the disk and the machine |
//! | [`pipe`] | hears what other processes say |
//! | [`results`] | is what was measured |
//! | [`report`], [`compare`] | make it readable |
//!
//! `docs/benchmarks.md` describes the method.

mod cli;
mod compare;
mod engine;
mod measure;
mod pipe;
mod report;
mod results;
mod run;
mod settings;
mod work;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(status) => status,
        Err(e) => {
            eprintln!("titan-bench: {e:#}");
            ExitCode::FAILURE
        }
    }
}
