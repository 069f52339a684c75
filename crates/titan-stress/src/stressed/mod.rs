//! The process that is killed: opens the database, reports its contents, and runs operations on it.
//!
//! | file | owns |
//! |---|---|
//! | `world` | what its threads share; how they report events and handle errors |
//! | `reads` | reading a few keys in every way there is |
//! | `dump` | reading everything, after opening |
//! | `op_source` | chooses an actor's next operation |
//! | `writer` | an actor's thread: operations, and reading back their results |
//! | `reader` | reading anyone's keys; the sums of the banks |
//! | `view_keeper` | snapshots, iterators and lazy values, kept and read again much later |
//! | `maintainer` | flushes, compactions, syncs, metrics |
//! | `forks` | children that are forked and change nothing |
//! | `space` | what happens when the file system is full |
//!
//! The campaign says on standard input when to `go`, to `resume` and to `close`. At the end of
//! standard input the campaign is gone, and this process aborts.

mod dump;
mod forks;
mod maintainer;
mod op_source;
mod reader;
mod reads;
mod space;
mod view_keeper;
mod world;
mod writer;

use std::collections::HashSet;
use std::io::BufRead;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use fastrand::Rng;
use titan::{Db, ErrorKind};
use titan_testkit::failure::CheckFailure;
use titan_testkit::ops::Op;

use crate::event::Event;
use crate::keys::accounts;
use crate::plan::Plan;
use space::Space;
use world::{Out, World};

/// Runs one life, as the file `plan` describes it.
pub fn live(plan: &Path) -> ExitCode {
    match run(plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn run(plan: &Path) -> Result<(), String> {
    let mut plan = Plan::load(plan)?;
    let out = Arc::new(Out::new().map_err(|e| format!("standard output: {e}"))?);
    let space = Arc::new(Space::default());
    plan.options.db.listeners = vec![Arc::clone(&space) as Arc<_>];
    let db = Db::open(&plan.dir, &plan.options).map_err(|e| {
        let what = format!("opening: {e}");
        out.tell(&match e.kind() {
            ErrorKind::NoSpace if plan.may_fill_up => Event::Stopped(what.clone()),
            _ => Event::Failure(what.clone()),
        });
        what
    })?;
    out.tell(&Event::Opened);
    let world = Arc::new(World::new(db, plan, out, space));
    let model = match dump::dump(&world) {
        Ok(model) => model,
        Err(problem) => {
            world.complain(problem);
            return Err("the contents are wrong".to_owned());
        }
    };
    world.out.tell(&Event::Dumped);

    let mut commands = std::io::stdin().lock().lines().map_while(Result::ok);
    if commands.next().as_deref() != Some("go") {
        return Err("not told to go".to_owned());
    }
    let mut rng = Rng::with_seed(world.plan.seed);
    let mut threads = vec![spawn(&world, &mut rng, maintainer::maintain)];
    let actors = 0..=world.plan.scale.writers;
    let with_accounts = actors
        .clone()
        .filter(|actor| !accounts(&model, *actor).is_empty());
    let banks: HashSet<usize> = with_accounts.collect();
    for actor in actors {
        let model = model.clone();
        let writer = move |world: &World, rng| writer::write(world, rng, actor, model);
        threads.push(spawn(&world, &mut rng, writer));
    }
    for _ in 0..2 {
        let banks = banks.clone();
        let reader = move |world: &World, rng| reader::read(world, rng, banks);
        threads.push(spawn(&world, &mut rng, reader));
    }
    threads.push(spawn(&world, &mut rng, view_keeper::keep_views));
    threads.push(spawn(&world, &mut rng, forks::fork_children));
    if world.plan.may_fill_up {
        threads.push(spawn(&world, &mut rng, |world, _| space::heal(world)));
    }
    loop {
        match commands.next().as_deref() {
            Some("resume") => world.space.allow_resume(),
            Some("close") => break,
            // Nothing would receive reports any more.
            _ => std::process::abort(),
        }
    }
    world.closing.store(true, Ordering::SeqCst);
    if !world.plan.close_at_work {
        world.stop();
        threads.drain(..).for_each(join);
    }
    let closed = world.maintain(&Op::Close);
    world.stop();
    threads.into_iter().for_each(join);
    match closed {
        // Closing reports once more that writes have stopped.
        Err(CheckFailure::Failed(e)) if world.plan.may_fill_up && world.is_about_space(&e) => {}
        Err(problem) => world.complain(problem),
        Ok(()) => {}
    }
    Ok(())
}

fn spawn(
    world: &Arc<World>,
    rng: &mut Rng,
    work: impl FnOnce(&World, Rng) + Send + 'static,
) -> thread::JoinHandle<()> {
    let (world, rng) = (Arc::clone(world), rng.fork());
    thread::spawn(move || {
        let _panics = world::TellPanic(&world.out);
        work(&world, rng);
    })
}

/// A thread that panicked has reported it.
fn join(thread: thread::JoinHandle<()>) {
    let _ = thread.join();
}
