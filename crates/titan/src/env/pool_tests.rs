//! The threads of a pool, with databases that only count.

use std::sync::mpsc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::member::{Found, Member, Threads};
use super::order::{Class, EACH, Priority};
use super::pool::{Desk, Pool};
use crate::format::OpeningId;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A database that has so many jobs.
#[derive(Default)]
struct Busy {
    left: AtomicU64,
    /// Run with each job.
    job: Option<Arc<dyn Fn() + Send + Sync>>,
    takes_long: bool,
    panics: bool,
}

impl Busy {
    fn with_jobs(jobs: u64, job: impl Fn() + Send + Sync + 'static) -> Self {
        Busy {
            left: AtomicU64::new(jobs),
            job: Some(Arc::new(job)),
            ..Busy::default()
        }
    }
}

impl Member for Busy {
    fn find(self: Arc<Self>, threads: Threads, may_be_long: bool) -> Found {
        let may_begin = threads == Threads::Workers && (may_be_long || !self.takes_long);
        let left = self.left.load(Ordering::SeqCst);
        if !may_begin || left == 0 {
            return Found::Nothing { look_after: None };
        }
        self.left.store(left - 1, Ordering::SeqCst);
        assert!(!self.panics, "a database panics");
        let job = self.job.clone();
        Found::Job {
            is_long: self.takes_long,
            run: Box::new(move || job.iter().for_each(|job| job())),
        }
    }
}

type Look = dyn Fn(Threads, bool) -> Found + Send + Sync;

/// A database that is a function.
struct Looking(Box<Look>);

impl Member for Looking {
    fn find(self: Arc<Self>, threads: Threads, may_be_long: bool) -> Found {
        (self.0)(threads, may_be_long)
    }
}

fn attach(pool: &Arc<Pool>, member: Busy) -> (OpeningId, Weak<Busy>) {
    let (id, member) = (OpeningId::new(), Arc::new(member));
    let weak = Arc::downgrade(&member);
    pool.attach(id, member, 1, false).unwrap();
    (id, weak)
}

/// Counts jobs, not time: until each of fifty databases with one job has been served, one that
/// always has a job that is more urgent gets no more than its part of the turns.
#[test]
fn one_loud_database_does_not_starve_fifty_quiet_ones() {
    let pool = Pool::new(1);
    let served: Arc<Mutex<Vec<bool>>> = Arc::default();
    let (begin, may_begin) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let may_begin = Mutex::new(may_begin);
    let note = |is_loud: bool| {
        let served = Arc::clone(&served);
        move || served.lock().push(is_loud)
    };
    let noted = note(true);
    let (loud, _) = attach(
        &pool,
        Busy::with_jobs(u64::MAX, move || {
            // The only thread is here until all databases are.
            let _ = may_begin.lock().recv();
            noted();
        }),
    );
    let urgent = Priority {
        class: Class::Space,
        excess: 1.0,
    };
    pool.set_priority(loud, urgent, true);
    assert!(pool.is_urgent());
    let quiet: Vec<_> = (0..50)
        .map(|_| {
            let (noted, tell) = (note(false), tell.clone());
            let job = move || {
                noted();
                let _ = tell.send(());
            };
            attach(&pool, Busy::with_jobs(1, job)).0
        })
        .collect();
    drop(begin);
    for _ in &quiet {
        told.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    let served = served.lock().clone();
    let last = served.iter().rposition(|is_loud| !is_loud).unwrap();
    let of_loud = served[..last].iter().filter(|is_loud| **is_loud).count() as u64;
    assert!(of_loud <= 51 * EACH, "{of_loud} jobs of the loud one");
    assert!(
        of_loud >= 50,
        "{of_loud} jobs of the loud one, which is urgent"
    );
    for id in quiet.into_iter().chain([loud]) {
        pool.detach(id);
    }
    assert_eq!(pool.counts(), (0, 0));
    assert!(!pool.is_urgent());
}

#[test]
fn long_jobs_leave_a_thread_for_short_ones_of_any_database() {
    let pool = Pool::new(2);
    let (end, may_end) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let may_end = Arc::new(Mutex::new(may_end));
    let long = || {
        let (tell, may_end) = (tell.clone(), Arc::clone(&may_end));
        Busy {
            takes_long: true,
            ..Busy::with_jobs(1, move || {
                let _ = tell.send("long");
                let _ = may_end.lock().recv();
            })
        }
    };
    let (first, _) = attach(&pool, long());
    assert_eq!(told.recv(), Ok("long"));
    let (second, of_second) = attach(&pool, long());
    let short = {
        let tell = tell.clone();
        Busy::with_jobs(1, move || {
            let _ = tell.send("short");
        })
    };
    let (third, _) = attach(&pool, short);
    assert_eq!(told.recv(), Ok("short"));
    let second_left = of_second.upgrade().unwrap().left.load(Ordering::SeqCst);
    assert_eq!(second_left, 1, "it waits");
    end.send(()).unwrap();
    assert_eq!(told.recv(), Ok("long"));
    end.send(()).unwrap();
    for id in [first, second, third] {
        pool.detach(id);
    }
}

/// Two workers that look at the same time must not both begin a long job: a third database has a
/// flush.
#[test]
fn workers_that_look_at_the_same_time_leave_one_for_short_jobs() {
    let pool = Pool::new(2);
    let (tell, told) = mpsc::channel();
    let (end, may_end) = mpsc::channel::<()>();
    let may_end = Arc::new(Mutex::new(may_end));
    let looks: Arc<Mutex<Vec<bool>>> = Arc::default();
    let (both, of_both) = mpsc::channel();
    let go = Arc::new(std::sync::Barrier::new(3));
    let ids: Vec<_> = (0..2)
        .map(|_| {
            let (both, go, looks) = (both.clone(), Arc::clone(&go), Arc::clone(&looks));
            let (tell, may_end) = (tell.clone(), Arc::clone(&may_end));
            let meets = AtomicU64::new(1);
            let member = Looking(Box::new(move |threads, may_be_long| {
                if threads != Threads::Workers {
                    return Found::Nothing { look_after: None };
                }
                looks.lock().push(may_be_long);
                if meets.swap(0, Ordering::SeqCst) == 1 {
                    let _ = both.send(());
                    go.wait();
                }
                if !may_be_long {
                    return Found::Nothing { look_after: None };
                }
                let (tell, may_end) = (tell.clone(), Arc::clone(&may_end));
                Found::Job {
                    is_long: true,
                    run: Box::new(move || {
                        let _ = tell.send("long");
                        let _ = may_end.lock().recv();
                    }),
                }
            }));
            let id = OpeningId::new();
            pool.attach(id, Arc::new(member), 1, false).unwrap();
            id
        })
        .collect();
    // Both are asked before either has answered.
    for _ in &ids {
        of_both.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    go.wait();
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok("long"));
    let short = move || {
        let _ = tell.send("short");
    };
    let (third, _) = attach(&pool, Busy::with_jobs(1, short));
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok("short"));
    assert_eq!(looks.lock().iter().filter(|long| **long).count(), 1);
    drop(end);
    for id in ids.into_iter().chain([third]) {
        pool.detach(id);
    }
}

/// A worker is held back while the only long job ends: it must look again by itself.
#[test]
fn a_long_job_that_ends_during_a_search_is_noticed() {
    let pool = Pool::new(2);
    let (tell, told) = mpsc::channel();
    let (end, may_end) = mpsc::channel::<()>();
    let may_end = Mutex::new(may_end);
    let started = tell.clone();
    let long = Busy {
        takes_long: true,
        ..Busy::with_jobs(1, move || {
            let _ = started.send("first");
            let _ = may_end.lock().recv();
        })
    };
    let (first, of_first) = attach(&pool, long);
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok("first"));
    let within = Arc::clone(&pool);
    let left = AtomicU64::new(1);
    let end = Mutex::new(Some(end));
    let second = Looking(Box::new(move |threads, may_be_long| {
        if threads != Threads::Workers || left.load(Ordering::SeqCst) == 0 {
            return Found::Nothing { look_after: None };
        }
        if !may_be_long {
            // The first one ends while this one is being asked.
            drop(end.lock().take());
            while within.long_jobs() > 0 {
                std::thread::yield_now();
            }
            return Found::Nothing { look_after: None };
        }
        left.store(0, Ordering::SeqCst);
        let tell = tell.clone();
        Found::Job {
            is_long: true,
            run: Box::new(move || {
                let _ = tell.send("second");
            }),
        }
    }));
    let id = OpeningId::new();
    pool.attach(id, Arc::new(second), 1, false).unwrap();
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok("second"));
    drop(of_first);
    for id in [first, id] {
        pool.detach(id);
    }
}

/// A job may close the last other database.
#[test]
fn a_thread_of_the_pool_does_not_wait_for_itself() {
    let pool = Pool::new(1);
    let (tell, told) = mpsc::channel();
    let (other, _) = attach(&pool, Busy::default());
    let within = Arc::clone(&pool);
    let job = move || {
        within.detach(other);
        let _ = tell.send(());
    };
    let (id, _) = attach(&pool, Busy::with_jobs(1, job));
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    pool.detach(id);
    assert_eq!(pool.counts(), (0, 0));
}

#[test]
fn a_database_that_panics_harms_no_thread_and_no_other() {
    let pool = Pool::new(1);
    let (tell, told) = mpsc::channel();
    let hopeless = Busy {
        panics: true,
        ..Busy::with_jobs(1, || {})
    };
    let (hopeless, _) = attach(&pool, hopeless);
    let (in_a_job, _) = attach(&pool, Busy::with_jobs(1, || panic!("in a job")));
    let job = move || {
        let _ = tell.send(());
    };
    let (other, _) = attach(&pool, Busy::with_jobs(1, job));
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(pool.counts(), (3, 2));
    for id in [hopeless, in_a_job, other] {
        pool.detach(id);
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("in a destructor");
    }
}

/// The destructor may be that of a panic's object, or of an object that a database kept.
#[test]
fn a_destructor_that_panics_takes_no_thread() {
    let pool = Pool::new(1);
    let (tell, told) = mpsc::channel();
    let carrying = || std::panic::panic_any(Bomb);
    let (in_a_job, _) = attach(&pool, Busy::with_jobs(1, carrying));
    let in_a_search = Looking(Box::new(|_, _| std::panic::panic_any(Bomb)));
    let searching = OpeningId::new();
    pool.attach(searching, Arc::new(in_a_search), 1, false)
        .unwrap();
    let (keeping, _) = attach(&pool, Busy::with_jobs(1, || drop(Bomb)));
    let job = move || {
        let _ = tell.send(());
    };
    let (other, _) = attach(&pool, Busy::with_jobs(1, job));
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    for id in [in_a_job, searching, keeping, other] {
        pool.detach(id);
    }
    // Each thread has ended by itself, and none by a panic.
    assert_eq!(pool.counts(), (0, 0));
}

/// The thread found nothing to warm up, and was told better before it said so.
#[test]
fn what_is_raised_during_a_search_for_a_warm_up_is_not_lost() {
    let pool = Pool::new(1);
    let id = OpeningId::new();
    let (tell, told) = mpsc::channel();
    let looks = AtomicU64::new(0);
    let desk = Desk::new(&pool, id, Threads::WarmUp);
    let member = Looking(Box::new(move |threads, _| {
        if threads == Threads::WarmUp {
            let look = looks.fetch_add(1, Ordering::SeqCst);
            if look == 0 {
                desk.raise();
            }
            let _ = tell.send(look);
        }
        Found::Nothing { look_after: None }
    }));
    pool.attach(id, Arc::new(member), 1, true).unwrap();
    for look in 0..2 {
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(look));
    }
    pool.detach(id);
}

/// Nothing has a database once it is detached, and its jobs are over.
#[test]
fn a_detached_database_is_released_at_once() {
    let pool = Pool::new(2);
    let (id, member) = attach(&pool, Busy::with_jobs(3, || {}));
    pool.detach(id);
    assert!(member.upgrade().is_none());
    pool.detach(id);
    // Others can come.
    let (id, _) = attach(&pool, Busy::default());
    pool.detach(id);
    assert_eq!(pool.counts(), (0, 0));
}
