//! Room on a device that fills: `tests/golden/room`.
//!
//! `open 2G 1G` makes a volume on a device of 2 GiB with 1 GiB available. After a step, the output
//! has what the store did for room.

use std::sync::Arc;

use tifs::file_system::{Allocate, Capacity, Existing, FileSystem, WriteContext};
use tifs::volume::VolumeOptions;
use tifs_testkit::device::Device;
use titan_testkit::golden::Machine;
use titan_testkit::golden_tests;

use super::files::{Files, errno, outcome, shown, size};

golden_tests!(
    Room,
    "tests/golden/room",
    allocation,
    capacity,
    copies,
    deletions,
    filling,
    kernel_cache,
    log,
    names,
    other_programs,
    overwriting,
    small_devices,
);

#[derive(Default)]
struct Room {
    device: Device,
    files: Option<Files>,
}

impl Room {
    fn open(&mut self, total: &str, available: &str) -> String {
        self.device = Device::default();
        let mut state = self.device.0.lock();
        (state.total, state.available) = (size(total), size(available));
        drop(state);
        let device = self.device.clone();
        let options = VolumeOptions {
            host_space: Arc::new(move || Ok(device.space())),
            ..VolumeOptions::default()
        };
        self.files = Some(Files::new(Arc::new(self.device.store()), options));
        "open".to_owned()
    }

    /// Writes MiB after MiB behind the end of a file, until one is refused.
    fn fill(&self, path: &str, at_most: u64, from_cache: bool) -> String {
        let files = self.files.as_ref().unwrap();
        let file = files.at(path).unwrap();
        let context = WriteContext {
            from_cache,
            ..WriteContext::default()
        };
        let data = vec![7; 1 << 20];
        for n in 0..at_most >> 20 {
            let offset = file.inode.size + (n << 20);
            if let Err(e) = files.volume.write(file.number, offset, &data, context) {
                return format!("{n} MiB, then {}", errno(e.errno()));
            }
        }
        format!("{} MiB", at_most >> 20)
    }

    fn step(&mut self, step: &str) -> String {
        let words: Vec<&str> = step.split(' ').collect();
        if let Some(outcome) = self.files.as_mut().unwrap().perform(&words) {
            return outcome;
        }
        let files = self.files.as_ref().unwrap();
        let volume = &files.volume;
        match *words {
            ["fill", path, at_most] => self.fill(path, size(at_most), false),
            ["fill", path, at_most, "cache"] => self.fill(path, size(at_most), true),
            // Small writes and then attributes, until nothing of the room that was found is left.
            ["use", "up", path] => {
                let number = files.number(path).unwrap();
                let write = |n: u64| {
                    volume
                        .write(number, n, b"7", WriteContext::default())
                        .is_ok()
                };
                let set = |_: &u64| {
                    let (name, any) = (b"user.a", Existing::Any);
                    volume
                        .set_extended_attribute(number, name, b"7", any)
                        .is_ok()
                };
                let writes = (0..10_000).take_while(|n| write(*n)).count();
                let sets = (0..10_000).take_while(set).count();
                format!("{writes} writes, {sets} attributes")
            }
            ["others", "take", bytes] => {
                let mut state = self.device.0.lock();
                state.available = state.available.saturating_sub(size(bytes));
                "taken".to_owned()
            }
            ["others", "free", bytes] => {
                self.device.0.lock().available += size(bytes);
                "freed".to_owned()
            }
            ["others", "leave", bytes] => {
                self.device.0.lock().available = size(bytes);
                "taken".to_owned()
            }
            ["allocate", path, offset, length, how] => {
                let how = match how {
                    "extend" => Allocate::Extend,
                    "keep" => Allocate::KeepSize,
                    "punch" => Allocate::PunchHole,
                    _ => Allocate::ZeroRange,
                };
                let number = files.number(path).unwrap();
                outcome(volume.allocate(number, size(offset), size(length), how))
            }
            ["copy", from, to, offset, length] => {
                let numbers = (files.number(from).unwrap(), files.number(to).unwrap());
                let to = (numbers.1, size(offset));
                match volume.copy_range((numbers.0, 0), to, size(length)) {
                    Ok(bytes) => format!("{} copied", shown(bytes)),
                    Err(e) => errno(e.errno()),
                }
            }
            ["reclaim"] => outcome(volume.reclaim_all()),
            ["statfs"] => {
                let capacity = volume.capacity().unwrap();
                let block = u64::from(Capacity::BLOCK_SIZE);
                format!(
                    "{} of {} available, {} inodes",
                    shown(capacity.available * block),
                    shown(capacity.blocks * block),
                    capacity.inodes - capacity.free_inodes
                )
            }
            ["dirty"] => shown(volume.max_dirty().unwrap()),
            ["device"] => {
                let state = self.device.0.lock();
                format!(
                    "{} MiB available, {} MiB of log, {} MiB of garbage",
                    state.available >> 20,
                    state.log >> 20,
                    state.garbage >> 20
                )
            }
            _ => panic!("unknown step: {step}"),
        }
    }
}

impl Machine for Room {
    fn perform(&mut self, command: &str, input: &[&str]) -> Vec<String> {
        let words: Vec<&str> = command.split(' ').collect();
        if let ["open", total, available] = *words {
            return vec![self.open(total, available)];
        }
        assert_eq!(command, "do");
        let mut lines = Vec::new();
        for step in input {
            let outcome = self.step(step);
            let events = std::mem::take(&mut self.device.0.lock().events);
            let mut line = format!("{step} -> {outcome}");
            if !events.is_empty() {
                line += &format!(" ({})", compact(&events));
            }
            lines.push(line);
        }
        lines
    }
}

/// The events in order; equal ones in a row once, with their number.
fn compact(events: &[String]) -> String {
    let runs = events.chunk_by(|a, b| a == b).map(|run| match run.len() {
        1 => run[0].clone(),
        times => format!("{} x{times}", run[0]),
    });
    runs.collect::<Vec<_>>().join(", ")
}
