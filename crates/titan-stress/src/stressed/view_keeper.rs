//! Keeps snapshots, iterators and lazy values while everything changes, and reads them again
//! much later: they must show what they showed at first.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fastrand::Rng;
use titan::{ColumnFamily, DbIterator, LazyValue, Snapshot};
use titan_testkit::failure::{Checked, ensure};
use titan_testkit::ops::Value;

use super::reader::{anyone, is_dropped};
use super::reads::{Found, Window, described};
use super::world::World;
use crate::keys::Key;

/// Number of views that are kept at once, and the longest time.
const KEPT: usize = 12;
const LONGEST: Duration = Duration::from_millis(1500);

/// Keeps and checks views until the life ends.
pub(super) fn keep_views(world: &World, mut rng: Rng) {
    let mut kept = VecDeque::new();
    world.keep_on(|| {
        // The views pin files whose space is needed.
        let room = !world.space.is_scarce();
        if room && kept.len() < KEPT {
            kept.extend(KeptView::take(world, &mut rng)?);
        }
        let now = Instant::now();
        match kept.pop_front() {
            Some(view) if now < view.until && room => kept.push_back(view),
            Some(view) => view.verify(world, &mut rng)?,
            None => {}
        }
        world.rest(Duration::from_millis(10), &mut rng);
        Ok(())
    });
}

/// The first view of a snapshot.
struct KeptView {
    handle: ColumnFamily,
    window: Window,
    snapshot: Snapshot,
    /// All entries in the window.
    found: Found,
    /// Positioned at an entry, with its index; or at none if there was none.
    iterator: DbIterator,
    position: usize,
    lazy: Vec<(Key, LazyValue)>,
    until: Instant,
}

impl KeptView {
    fn take(world: &World, rng: &mut Rng) -> Checked<Option<KeptView>> {
        let (actor, family) = anyone(world, rng);
        let Some(handle) = world.family(actor, family) else {
            return Ok(None);
        };
        let window = Window::any(actor, family, world.plan.scale.keys, rng);
        match KeptView::of(world, handle, window, rng) {
            Err(problem) if is_dropped(family, &problem) => Ok(None),
            taken => taken.map(Some),
        }
    }

    fn of(world: &World, handle: ColumnFamily, window: Window, rng: &mut Rng) -> Checked<KeptView> {
        let snapshot = world.db.snapshot();
        let found = world.look(&handle, &window, Some(&snapshot), rng)?;
        let options = window.options(Some(&snapshot), rng);
        let mut iterator = handle.iter(&options)?;
        let position = rng.usize(..=found.len() / 2);
        iterator.seek_to_first()?;
        for _ in 0..position {
            iterator.next()?;
        }
        let mut lazy = Vec::new();
        for (key, _) in &found {
            if let Some(value) = handle.get_lazy_with(&key.bytes(window.actor), &options)? {
                lazy.push((*key, value));
            }
        }
        let until = Instant::now() + LONGEST.mul_f64(rng.f64());
        Ok(KeptView {
            handle,
            window,
            snapshot,
            found,
            iterator,
            position,
            lazy,
            until,
        })
    }

    fn verify(mut self, world: &World, rng: &mut Rng) -> Checked<()> {
        let mut rest = Found::new();
        while self.iterator.valid() {
            rest.push(world.entry(&self.window, &mut self.iterator)?);
            self.iterator.next()?;
        }
        self.compare("an iterator kept", self.found.get(self.position..), &rest)?;

        let mut fetched = Found::new();
        for (key, value) in &self.lazy {
            fetched.push((*key, described(self.window.actor, *key, &value.fetch()?)?));
        }
        self.compare("lazy values kept", Some(&self.found), &fetched)?;

        match world.look(&self.handle, &self.window, Some(&self.snapshot), rng) {
            Err(problem) if is_dropped(self.window.family, &problem) => Ok(()),
            again => self.compare("a snapshot kept", Some(&self.found), &again?),
        }
    }

    fn compare(&self, what: &str, first: Option<&[(Key, Value)]>, now: &Found) -> Checked<()> {
        let (window, snapshot) = (&self.window, &self.snapshot);
        ensure!(
            first == Some(now),
            "{what} ({snapshot:?}, {window:?}) showed {first:?}, and now {now:?}"
        );
        Ok(())
    }
}
