//! Two file systems in step.

use std::fmt;
use std::fs::{create_dir, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::outcome::Answer;
use super::side::Side;
use crate::ops::{Op, Ops, Step, reduced};

/// After so many operations, all that the file systems have is compared.
const TREES_EACH: usize = 50;

/// Two file systems. Each list of operations has fresh directories there.
pub struct Pair<'a> {
    roots: [PathBuf; 2],
    runs: usize,
    counts: Counts,
    remount: Option<&'a mut dyn FnMut()>,
}

/// Numbers of operations so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// System calls that were compared.
    pub performed: u64,
    /// Those of them that succeeded.
    pub succeeded: u64,
    /// Operations that no system call does: nothing was compared.
    pub skipped: u64,
}

/// The difference.
pub struct Difference {
    /// The operation after which it was found.
    pub at: usize,
    text: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<'a> Pair<'a> {
    /// Their root directories, and how to mount again the first of them.
    pub fn new<P: Into<PathBuf>>(roots: [P; 2], remount: Option<&'a mut dyn FnMut()>) -> Pair<'a> {
        Pair {
            roots: roots.map(Into::into),
            runs: 0,
            counts: Counts::default(),
            remount,
        }
    }

    /// Performs operations on both; returns the first difference.
    pub fn run(&mut self, steps: &[Step]) -> Option<Difference> {
        self.runs += 1;
        let roots = self.roots.each_ref().map(|root| {
            let root = root.join(format!("run-{}", self.runs));
            create_dir(&root).unwrap();
            // All users may work there.
            set_permissions(&root, PermissionsExt::from_mode(0o777)).unwrap();
            root
        });
        let start = || roots.each_ref().map(|root| Side::start(root));
        let mut sides = Some(start());
        for (at, step) in steps.iter().enumerate() {
            let running = sides.get_or_insert_with(start);
            let outcomes = Side::perform(running, step);
            if outcomes[0] != outcomes[1] {
                let [left, right] = outcomes;
                let text = format!("operation {at}, {step}: {left:?} and {right:?}");
                return Some(Difference { at, text });
            }
            match &outcomes[0] {
                Ok(Answer::Nothing) => {
                    eprintln!("operation {at}, {step}: no system call");
                    self.counts.skipped += 1;
                }
                outcome => {
                    self.counts.performed += 1;
                    self.counts.succeeded += u64::from(outcome.is_ok());
                }
            }
            match step.op {
                Op::Remount {} | Op::Crash {} => {
                    sides = None;
                    if let Some(remount) = &mut self.remount {
                        remount();
                    }
                }
                Op::DropCaches {} => drop_caches(),
                _ => {}
            }
            if at + 1 == steps.len() || at % TREES_EACH == TREES_EACH - 1 {
                let running = sides.get_or_insert_with(start);
                if let Some(difference) = compare_trees(running, at) {
                    return Some(difference);
                }
            }
        }
        // ORDER: the files are closed before the directories go.
        drop(sides);
        for root in &roots {
            std::fs::remove_dir_all(root).unwrap();
        }
        None
    }

    /// The numbers so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// A smaller list that still differs, and how.
    pub fn reduce(&mut self, steps: &[Step], first: Difference) -> (Ops, Difference) {
        let mut found = first;
        // What is after the difference does not matter.
        let steps = steps[..=found.at].to_vec();
        let ops = reduced(Ops(steps), |ops| match self.run(&ops.0) {
            Some(difference) => {
                found = difference;
                true
            }
            None => false,
        });
        (ops, found)
    }
}

fn compare_trees(sides: &[Side; 2], at: usize) -> Option<Difference> {
    let text = match Side::trees(sides) {
        [Ok(left), Ok(right)] if left == right => return None,
        [Ok(left), Ok(right)] => left.differences(&right),
        [left, right] => {
            let (left, right) = (left.map(|_| "read"), right.map(|_| "read"));
            format!("{left:?} and {right:?}")
        }
    };
    let text = format!("trees after operation {at}: {text}");
    Some(Difference { at, text })
}

/// Lets the kernel drop entries and inodes that are not in use.
fn drop_caches() {
    std::fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
}
