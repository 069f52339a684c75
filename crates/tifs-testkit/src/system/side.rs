//! One of the two file systems.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::process::{chdir, chroot};

use super::calls::Performer;
use super::outcome::Outcome;
use super::tree::Tree;
use crate::ops::Step;

/// A thread that performs operations, with a directory as its root directory, so that no path and
/// no symbolic link leads out of it.
pub struct Side {
    orders: Option<Sender<Order>>,
    results: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    Perform(Step),
    ReadTree,
}

/// The outcome of an order.
enum Done {
    Performed(Outcome),
    Tree(Result<Tree, Errno>),
}

impl Side {
    /// Starts one with an existing directory.
    pub fn start(root: &Path) -> Side {
        let (orders, received) = channel();
        let (sender, results) = channel();
        let root = root.to_owned();
        let thread = std::thread::spawn(move || {
            let mut performer = Performer::new().unwrap();
            // The root directory and the umask of this thread are no longer those of others.
            unshare(CloneFlags::CLONE_FS).unwrap();
            chroot(&root).unwrap();
            chdir("/").unwrap();
            for order in received {
                let done = match order {
                    Order::Perform(step) => Done::Performed(performer.perform(&step)),
                    Order::ReadTree => Done::Tree(Tree::read()),
                };
                if sender.send(done).is_err() {
                    return;
                }
            }
        });
        Side {
            orders: Some(orders),
            results,
            thread: Some(thread),
        }
    }

    fn order(&self, order: Order) {
        // A failure shows in the missing result.
        let _ = self.orders.as_ref().unwrap().send(order);
    }

    /// Performs an operation on both.
    pub fn perform(sides: &[Side; 2], step: &Step) -> [Outcome; 2] {
        for side in sides {
            side.order(Order::Perform(step.clone()));
        }
        sides.each_ref().map(|side| match side.results.recv() {
            Ok(Done::Performed(outcome)) => outcome,
            _ => panic!("the thread of a side ended"),
        })
    }

    /// Reads both trees.
    pub fn trees(sides: &[Side; 2]) -> [Result<Tree, Errno>; 2] {
        for side in sides {
            side.order(Order::ReadTree);
        }
        sides.each_ref().map(|side| match side.results.recv() {
            Ok(Done::Tree(tree)) => tree,
            _ => panic!("the thread of a side ended"),
        })
    }
}

impl Drop for Side {
    /// Closes all files, and leaves the directory.
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
