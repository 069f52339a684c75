//! Gates stop the threads of their own test, and fail instead of waiting for ever.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::{Actor, Gates, come_to, inherit, race, race_within};

fn steps(done: &AtomicU32) {
    done.store(1, Ordering::SeqCst);
    come_to("test: between");
    done.store(2, Ordering::SeqCst);
}

#[test]
fn a_thread_stands_at_its_gate_until_the_test_lets_it_go_on() {
    race(|gates| {
        let done = Arc::new(AtomicU32::new(0));
        let stop = gates.stop_at("test: between");
        let own = Arc::clone(&done);
        let actor = gates.spawn("actor", move || steps(&own));
        stop.reached();
        assert_eq!(done.load(Ordering::SeqCst), 1);
        stop.open();
        actor.join();
        assert_eq!(done.load(Ordering::SeqCst), 2);
        assert_eq!(gates.passed(), ["test: between"]);
        let first = gates.first_of(&["test: other", "test: between"]);
        assert_eq!(first, "test: between");
    });
}

#[test]
fn only_the_threads_of_the_test_stop_and_only_one_at_each_stop() {
    race(|gates| {
        let stop = gates.stop_at("test: between");
        let done = Arc::new(AtomicU32::new(0));
        // This thread, one without gates, and one of another test.
        steps(&done);
        let own = Arc::clone(&done);
        thread::spawn(move || steps(&own)).join().unwrap();
        let own = Arc::clone(&done);
        let other = Gates::default();
        other.spawn("other", move || steps(&own)).join();
        assert_eq!(gates.passed(), [""; 0]);

        let own = Arc::clone(&done);
        let first = gates.spawn("first", move || steps(&own));
        stop.reached();
        gates.spawn("second", move || steps(&done)).join();
        stop.open();
        first.join();
    });
}

#[test]
fn a_thread_has_the_gates_of_the_thread_that_started_it() {
    race(|gates| {
        let stop = gates.stop_at("test: between");
        let (tell, told) = mpsc::channel();
        gates.given(|| {
            // Through a thread that comes to no gate itself.
            thread::spawn(inherit(move || {
                let steps = inherit(|| steps(&AtomicU32::new(0)));
                tell.send(thread::spawn(steps)).unwrap();
            }));
        });
        let thread = told.recv().unwrap();
        stop.reached();
        stop.open();
        thread.join().unwrap();
    });
}

fn failure_of(test: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(test)).unwrap_err();
    panic.downcast_ref::<String>().unwrap().clone()
}

#[test]
fn threads_that_wait_for_each_other_fail_the_test_and_go_on() {
    let (tell, told) = mpsc::channel();
    let failure = failure_of(|| {
        race_within(Duration::from_millis(50), move |gates| {
            let _stop = gates.stop_at("test: between");
            let actor = gates.spawn("actor", move || {
                steps(&AtomicU32::new(0));
                tell.send(()).unwrap();
            });
            // A mistake: nothing opens the gate.
            actor.join();
        });
    });
    assert!(failure.contains("the test waits for ever"), "{failure}");
    told.recv().unwrap();
}

#[test]
fn a_thread_that_panics_fails_the_test_that_waits_for_another() {
    let failure = failure_of(|| {
        race(|gates| {
            let stop = gates.stop_at("test: between");
            let _first = gates.spawn("first", || steps(&AtomicU32::new(0)));
            stop.reached();
            let _second: Actor<()> = gates.spawn("second", || panic!("a mistake"));
            gates.stop_at("test: nowhere").reached();
        });
    });
    for part in [
        "second: a mistake",
        "first waits at \"test: between\"",
        "no thread came to \"test: nowhere\"",
        "passed last: [\"test: between\"]",
    ] {
        assert!(failure.contains(part), "{failure}");
    }
}
