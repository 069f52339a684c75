//! The macro `gate!`, which marks the points at which a unit test can stop a thread, as that of the
//! engine does. It expands to nothing in every other build. A thread has the gates of the test that
//! started it; those of the engine have none. The part of the name before the colon names the
//! thread's activity.

/// A point at which a test can stop the thread: see the module.
#[cfg(test)]
macro_rules! gate {
    ($name:literal) => {
        ::titan_testkit::gates::come_to($name)
    };
}

#[cfg(not(test))]
macro_rules! gate {
    ($name:literal) => {};
}
