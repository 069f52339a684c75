//! Simulated file system, simulated time, crash images and models for testing Titan.
//!
//! | module | gives |
//! |---|---|
//! | [`sim`] | a file system in memory that records, fails, and can be crashed afterwards |
//! | [`counted`] | an allocator that counts |
//! | [`child`] | a forked child that runs a part of a test |
//! | [`clock`] | time that passes when a test says so |
//! | [`ops`] | operations on a database: generated, as text, reduced |
//! | [`model`] | what a database should contain |
//! | [`reference`](mod@reference) | the expected outcome of every operation on it |
//! | [`apply`] | operations as calls of the engine |
//! | [`reads`] | all contents of a database |
//! | [`setup`] | databases of tests: options, keys, values |
//! | [`failure`] | the errors of checks |
//! | [`gates`] | control of the points at which a test stops a thread |
//! | [`golden`] | files of commands and of their recorded outputs |
//! | [`peer`] | another engine in its own process |
//! | [`requirement`] | whether a test that needs a tool can run, must be skipped, or must fail |
//! | [`versions`] | operations on a store of versions, and what it should contain |
//! | [`law`] | the laws of modules and of words that every crate keeps |
//! | [`ledger`] | what was begun and acknowledged, and which states may be found after a crash |
//!
//! # How to write a crash test
//!
//! Run a workload *once* on a [`SimVfs`](sim::SimVfs). Note each operation in a
//! [`Ledger`](ledger::Ledger), and mark in the journal when it was acknowledged. Then visit the
//! crash points of the journal, recover from each, and ask the ledger whether the outcome is
//! allowed.
//!
//! The code under test is a store that keeps its operations as lines of text in a log. Recovery
//! copies the lines it trusts to a new log and replaces the old one with it.
//!
//! ```
//! use std::path::Path;
//! use titan::Result;
//! use titan::vfs::{Vfs, WritableFile};
//! use titan_testkit::ledger::{End, Keys, Ledger};
//! use titan_testkit::model::Model;
//! use titan_testkit::ops::{Durability, Generator, Op, Ops, Weights};
//! use titan_testkit::sim::{Loss, SimVfs};
//!
//! struct Store {
//!     log: Box<dyn WritableFile>,
//!     model: Model,
//! }
//!
//! fn checksum(text: &str) -> u32 {
//!     text.bytes().fold(17, |sum, byte| sum.wrapping_mul(16_777_619) ^ u32::from(byte))
//! }
//!
//! /// The operation on a line of the log, if it is whole.
//! fn whole(line: &str) -> Option<&str> {
//!     let (sum, op) = line.split_once(' ')?;
//!     (sum == format!("{:08x}", checksum(op))).then_some(op)
//! }
//!
//! impl Store {
//!     fn open(vfs: &SimVfs) -> Result<Store> {
//!         let (log, temp) = (Path::new("/db/log"), Path::new("/db/temp"));
//!         vfs.create_dir_all(Path::new("/db"))?;
//!         vfs.sync_dir(Path::new("/"))?;
//!         let old = if vfs.exists(log)? { vfs.read_all(log)? } else { Vec::new() };
//!         let old = String::from_utf8_lossy(&old);
//!         let mut store = Store { log: vfs.create(temp)?, model: Model::new() };
//!         for op in old.lines().map_while(whole) {
//!             store.apply(&Ops::parse(op)?.0[0])?;
//!         }
//!         store.log.sync()?;
//!         vfs.rename(temp, log)?;
//!         vfs.sync_dir(Path::new("/db"))?;
//!         Ok(store)
//!     }
//!
//!     fn apply(&mut self, op: &Op) -> Result<()> {
//!         let text = op.to_string();
//!         self.log.append(format!("{:08x} {text}\n", checksum(&text)).as_bytes())?;
//!         if !matches!(op, Op::Write { durability: Durability::Logged, .. }) {
//!             self.log.sync()?;
//!         }
//!         self.model.apply(op);
//!         Ok(())
//!     }
//! }
//!
//! // 1. The workload, once. Everything random follows from a seed that a failure will name.
//! let seed = 7;
//! let mut generator = Generator::with_seed(seed);
//! generator.weights = Weights::writes_only();
//! let ops = generator.ops(60);
//! let vfs = SimVfs::new();
//! let mut store = Store::open(&vfs)?;
//! let mut ledger = Ledger::new(Keys::Together);
//! for op in &ops.0 {
//!     store.apply(op)?;
//!     // 2. From here on, what this operation promised must be kept.
//!     ledger.push(op);
//!     vfs.mark(ledger.now());
//! }
//!
//! // 3. Every crash.
//! let journal = vfs.journal();
//! for point in journal.crash_points() {
//!     for loss in [Loss::None, Loss::All, Loss::Random(1), Loss::Random(2)] {
//!         let found = Store::open(&point.crash(&loss))?;
//!         let (end, moment) = (End::with(&loss), point.acknowledged());
//!         if let Err(mismatch) = ledger.allows(&found.model, end, moment) {
//!             panic!("seed {seed}, crash at {}, {loss:?}: {mismatch}\n{ops}", point.index());
//!         }
//!     }
//! }
//! # Ok::<(), titan::Error>(())
//! ```
//!
//! Next steps:
//!
//! - Crash the *recovery* too: the image that [`CrashPoint::crash`](sim::CrashPoint::crash) returns
//!   is a [`SimVfs`](sim::SimVfs) with a journal of its own.
//! - Kill the process in the middle of an append:
//!   [`CrashPoint::kill_within`](sim::CrashPoint::kill_within).
//! - Make operations fail instead: [`Fault`](sim::Fault), which also has a text form. Assert on
//!   [`FaultHandle::hits`](sim::FaultHandle::hits), or the test may test nothing.
//! - Let the device become full ([`SimVfs::set_capacity`](sim::SimVfs::set_capacity)), or limit the
//!   open files ([`SimVfs::set_max_open_files`](sim::SimVfs::set_max_open_files)).
//! - Make time and names depend only on a seed: pass [`SimClock`](clock::SimClock) to
//!   `DbOptions::clock`, and to [`SimVfs::set_latency`](sim::SimVfs::set_latency).
//! - Block a thread at an operation while others continue:
//!   [`SimVfs::set_hook`](sim::SimVfs::set_hook).
//! - Shrink a failing list with [`ops::reduce`], and paste the text of the result into a test that
//!   starts with [`Ops::parse`](ops::Ops::parse).
//! - Print the journal to see the order of file operations; give an image to other tools with
//!   [`SimVfs::copy_out_to`](sim::SimVfs::copy_out_to).
//! - See the test fail once: leave out a sync, and check that the test detects it.

pub mod apply;
pub mod child;
pub mod clock;
pub mod counted;
pub mod failure;
pub mod gates;
pub mod golden;
mod history;
pub mod law;
pub mod ledger;
pub mod model;
pub mod ops;
pub mod peer;
pub mod reads;
pub mod reference;
pub mod requirement;
pub mod setup;
pub mod sim;
pub mod versions;

/// A seed unrelated to those of neighbouring numbers.
pub fn mix(seed: u64, number: u64) -> u64 {
    let mut rng = fastrand::Rng::with_seed(seed.rotate_left(32) ^ number);
    rng.u64(..)
}
