//! One process of libFuzzer: its arguments, its output, how it ended.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use titan_campaigns::Run;

/// The most bytes of an input: what is decoded is small, and long inputs are slow.
const MAX_LEN: u64 = 1024;
/// A table has more than that even without entries.
const MAX_TABLE: u64 = 4096;
/// Seconds after which an input counts as hanging.
const TIMEOUT: u64 = 20;
/// The most memory, libFuzzer's own included: a larger allocation ends the process, even if it is
/// never written to.
const MEMORY: u64 = 768 << 20;
/// libFuzzer's exit status when it is interrupted.
const INTERRUPTED: i32 = 72;
/// Lines that are kept to show what came before a failure.
const LINES: usize = 60;

/// A target to be run.
pub(super) struct Fuzzer {
    name: String,
    binary: PathBuf,
    /// The committed corpus.
    committed: PathBuf,
    /// Where new inputs are written.
    found: PathBuf,
    failures: PathBuf,
    asan: bool,
    time: Option<Duration>,
    runs: Option<u64>,
    seed: u64,
}

impl Fuzzer {
    pub(super) fn new(binaries: &Path, name: String, asan: bool) -> Self {
        let root = crate::root();
        let target = root.join("target/fuzz");
        Fuzzer {
            binary: binaries.join(&name),
            committed: root.join("fuzz/corpus").join(&name),
            found: target.join("corpus").join(&name),
            failures: target.join("failures"),
            name,
            asan,
            time: None,
            runs: None,
            seed: 0,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Sets how long to continue. Without any limit the committed corpus is run once.
    pub(super) fn limit(&mut self, time: Option<Duration>, runs: Option<u64>, seed: u64) {
        (self.time, self.runs, self.seed) = (time, runs, seed);
    }

    /// Runs one input and shows what the target prints.
    pub(super) fn replay(&self, input: &Path) -> Result<ExitCode, String> {
        let mut command = Command::new(&self.binary);
        let status = command.arg(input).status().map_err(|e| self.says(e))?;
        Ok(match status.success() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }

    /// Runs the target to its end and reports its executions to `run`. Returns a line that
    /// summarises them.
    ///
    /// # Errors
    /// The failure, and the command that reproduces it.
    pub(super) fn run(&self, run: &Run) -> Result<String, String> {
        for dir in [&self.committed, &self.found, &self.failures] {
            std::fs::create_dir_all(dir).map_err(|e| self.says(e))?;
        }
        let started = Instant::now();
        let mut child = self.command().spawn().map_err(|e| self.says(e))?;
        self.limit_memory(child.id());
        let mut output = Output::default();
        if let Some(stderr) = child.stderr.take() {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                let before = output.executions;
                output.line(String::from_utf8_lossy(&line).into_owned());
                run.pass(output.executions - before);
                if !run.goes_on() {
                    interrupt(child.id());
                }
            }
        }
        let status = child.wait().map_err(|e| self.says(e))?;
        let ended = status.success() || (!run.goes_on() && is_interrupted(status));
        if output.failure.is_some() || !ended {
            return Err(self.failure(&output, status));
        }
        let seconds = started.elapsed().as_secs_f64().max(0.001);
        let per_second = (output.executions as f64 / seconds) as u64;
        Ok(format!(
            "{}: {} executions, {per_second} a second, {} edges",
            self.name, output.executions, output.coverage
        ))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        let number = |name: &str, value: u64| format!("-{name}={value}");
        let max_len = match self.name.as_str() {
            "table" => MAX_TABLE,
            _ => MAX_LEN,
        };
        command
            // libFuzzer's seeds have 32 bits, and 0 means a random one.
            .arg(number("seed", self.seed % 0xffff_fffe + 1))
            .arg(number("max_len", max_len))
            .arg(number("timeout", TIMEOUT))
            .arg(number("print_final_stats", 1))
            .arg(format!(
                "-artifact_prefix={}/{}-",
                self.failures.display(),
                self.name
            ));
        if let Some(time) = self.time {
            command.arg(number("max_total_time", time.as_secs().max(1)));
        }
        match (self.runs, self.time) {
            (Some(runs), _) => drop(command.arg(number("runs", runs))),
            // Runs the corpus once.
            (None, None) => drop(command.arg("-runs=0")),
            (None, Some(_)) => {}
        }
        if self.asan {
            command.arg(number("malloc_limit_mb", MEMORY >> 20));
        }
        if self.runs.is_some() || self.time.is_some() {
            command.arg(&self.found);
        }
        command.arg(&self.committed);
        // Buffers of the same large size are allocated and freed again and again: this is faster if
        // the heap keeps their memory.
        command.env("MALLOC_MMAP_THRESHOLD_", "33554432");
        command.env("MALLOC_TRIM_THRESHOLD_", "268435456");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::piped());
        command
    }

    /// Keeps the process from reserving more than it can need. The address sanitizer reserves
    /// terabytes, and has its own limit.
    fn limit_memory(&self, process: u32) {
        let limit = Rlimit {
            current: Some(MEMORY),
            maximum: Some(MEMORY),
        };
        if let (Some(pid), false) = (pid(process), self.asan) {
            // If the kernel refuses, the run continues without the limit.
            let _ = prlimit(Some(pid), Resource::Data, limit);
        }
    }

    fn failure(&self, output: &Output, status: ExitStatus) -> String {
        let lines: Vec<_> = output.last.iter().map(String::as_str).collect();
        let lines = lines.join("\n");
        let again = match &output.failure {
            Some(input) => format!(
                "again: cargo xtask fuzz --target {} --input {input}",
                self.name
            ),
            None => format!("seed {}", self.seed),
        };
        format!("{}: {status}\n{lines}\n{again}", self.name)
    }

    fn says(&self, e: impl std::fmt::Display) -> String {
        format!("{}: {e}", self.name)
    }
}

fn pid(process: u32) -> Option<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw)
}

/// Asks a process to end and to print how often it ran.
fn interrupt(process: u32) {
    if let Some(pid) = pid(process) {
        // An error means that the process has already ended.
        let _ = kill_process(pid, Signal::INT);
    }
}

/// Whether a process ended because it was asked to.
fn is_interrupted(status: ExitStatus) -> bool {
    // By the signal itself, if that arrives before libFuzzer waits for it.
    status.code() == Some(INTERRUPTED) || status.signal() == Some(Signal::INT.as_raw())
}

/// Output of libFuzzer so far.
#[derive(Default)]
struct Output {
    executions: u64,
    coverage: u64,
    /// The file with the input that failed.
    failure: Option<String>,
    last: VecDeque<String>,
}

impl Output {
    /// Parses a line: `#N KIND cov: N ...`, a line of statistics, or something to remember.
    fn line(&mut self, line: String) {
        if let Some(rest) = line.strip_prefix('#')
            && let Some(executions) = leading_number(rest)
        {
            self.executions = self.executions.max(executions);
            let (_, coverage) = line.split_once("cov: ").unwrap_or_default();
            self.coverage = leading_number(coverage).unwrap_or(self.coverage);
            return;
        }
        if let Some(value) = line.strip_prefix("stat::number_of_executed_units:") {
            let executions = leading_number(value.trim()).unwrap_or_default();
            self.executions = self.executions.max(executions);
        }
        if let Some((_, file)) = line.split_once("Test unit written to ") {
            self.failure = Some(file.trim().to_owned());
        }
        if self.last.len() == LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }
}

fn leading_number(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_interruption_is_one() {
        // As `wait` returns them: the exit status in the second byte, a signal in the first.
        assert!(is_interrupted(ExitStatus::from_raw(72 << 8)));
        assert!(is_interrupted(ExitStatus::from_raw(2)));
        for other in [1 << 8, 77 << 8, 6, 9, 11] {
            assert!(!is_interrupted(ExitStatus::from_raw(other)));
        }
    }

    #[test]
    fn what_libfuzzer_says_is_understood() {
        let mut output = Output::default();
        for line in [
            "INFO: Seed: 1",
            "#8192\tpulse  cov: 812 ft: 2000 corp: 90/3Kb lim: 33 exec/s: 4096 rss: 50Mb",
            "#9000\tDONE   cov: 815 ft: 2010",
            "stat::number_of_executed_units: 9001",
            "artifact_prefix='x/'; Test unit written to x/block-crash-12",
        ] {
            output.line(line.to_owned());
        }
        assert_eq!((output.executions, output.coverage), (9001, 815));
        assert_eq!(output.failure.as_deref(), Some("x/block-crash-12"));
        assert_eq!(output.last.len(), 3);
    }
}
