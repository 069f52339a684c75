//! The process's limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of files that this process may have open (the soft limit) to the most that it
/// may allow itself (the hard limit). Returns the limit in force afterwards; `None` if there is
/// none.
///
/// To be called by a program, at its start, before it opens databases: they take a part of the
/// limit for files that they keep open. The engine never does it: a program may use `select`, which
/// fails for descriptors from 1024 on.
pub fn raise_open_files_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Where it cannot be raised, as it is enough for most databases.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current
}
