//! Replays the recorded system calls of a process on the simulated file system.
//!
//! The directory `root` of the recorded run is the root directory of the simulated file system. A
//! line that the process wrote to the file of marks sets a mark.
//!
//! A call takes effect when it has returned. There are three exceptions. A mark is set, and a
//! descriptor is free for other files, as soon as the call begins. A sync promises nothing about
//! changes that were made while it ran: if there were any to the same file or directory, it takes
//! effect where it began.
//!
//! A call that concerns a file below `root` and is not known here stops the test: a call that
//! changes a file unnoticed would make the images of crashes wrong.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use titan::vfs::Vfs;
use titan_testkit::sim::{CalledFile, Journal, SimVfs};

use super::strace::Call;

/// Calls that change no names and no bytes.
const HARMLESS: &[&str] = &[
    "access",
    "chdir",
    "execve",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "flock",
    "fstat",
    "fstatfs",
    "getcwd",
    "getdents64",
    "lstat",
    "newfstatat",
    "readahead",
    "readlink",
    "readlinkat",
    "stat",
    "statfs",
    "statx",
];

/// Ways to change files of which `strace` does not show which.
const HIDDEN: &[&str] = &[
    "fork",
    "vfork",
    "io_setup",
    "io_submit",
    "io_uring_enter",
    "io_uring_setup",
    "open_by_handle_at",
    "process_vm_writev",
];

/// Result of the replay.
pub struct Replayed {
    /// The file system at the end.
    pub vfs: SimVfs,
    /// The calls, with a crash point before each.
    pub journal: Journal,
    /// Number of changing calls of each name.
    pub calls: HashMap<String, u64>,
}

/// An open descriptor below the root, or of the file of marks.
enum Open {
    Written { file: CalledFile, position: u64 },
    Read,
    Marks,
}

/// Replays the calls. `mark` is called at each mark, with its number from 0.
pub fn replay(
    calls: &[Call],
    root: &Path,
    marks: &Path,
    mark: impl FnMut(&SimVfs, usize),
) -> Replayed {
    let mut replay = Replay {
        vfs: SimVfs::new(),
        root,
        marks,
        open: HashMap::new(),
        calls: HashMap::new(),
        marked: 0,
        mark,
    };
    for call in in_order_of_effect(calls, root, marks) {
        replay.apply(call);
    }
    Replayed {
        journal: replay.vfs.journal(),
        vfs: replay.vfs,
        calls: replay.calls,
    }
}

/// The calls that concern files below the root, each where it takes effect.
fn in_order_of_effect<'a>(calls: &'a [Call], root: &Path, marks: &Path) -> Vec<&'a Call> {
    let below = |path: &PathBuf| path.starts_with(root) || path == marks;
    let concerned = calls.iter().filter_map(|call| {
        assert!(
            !HIDDEN.contains(&&*call.name),
            "cannot see what this changes: {}",
            call.short()
        );
        let paths: Vec<PathBuf> = call.paths().into_iter().filter(below).collect();
        (!paths.is_empty() || call.name == "close" || call.name.starts_with("dup"))
            .then_some((call, paths))
    });
    let concerned: Vec<(&Call, Vec<PathBuf>)> = concerned.collect();
    let changes = |call: &Call| !HARMLESS.contains(&&*call.name) && !is_sync(call);
    let place = |(call, paths): &(&Call, Vec<PathBuf>)| {
        let (start, end) = call.lines;
        let touches = |path: &PathBuf| {
            paths
                .iter()
                .any(|p| p == path || Some(&**p) == path.parent())
        };
        let overtaken = || {
            concerned.iter().any(|(other, touched)| {
                let between = start < other.lines.1 && other.lines.1 < end;
                between && changes(other) && touched.iter().any(touches)
            })
        };
        match is_sync(call) {
            _ if call.name == "close" || paths.iter().any(|path| path == marks) => start,
            true if end > start && overtaken() => start,
            _ => end,
        }
    };
    let mut placed: Vec<(usize, &Call)> = concerned.iter().map(|c| (place(c), c.0)).collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, call)| call).collect()
}

fn is_sync(call: &Call) -> bool {
    matches!(&*call.name, "fsync" | "fdatasync")
}

struct Replay<'a, F> {
    vfs: SimVfs,
    root: &'a Path,
    marks: &'a Path,
    open: HashMap<i64, Open>,
    calls: HashMap<String, u64>,
    marked: usize,
    mark: F,
}

impl<F: FnMut(&SimVfs, usize)> Replay<'_, F> {
    fn apply(&mut self, call: &Call) {
        let name = &*call.name;
        if call.result < 0 {
            // Nothing happened, and the engine may know why; but no write may be lost here.
            let tried = [
                "open",
                "openat",
                "mkdir",
                "mkdirat",
                "linkat",
                "fallocate",
                "unlinkat",
            ];
            let expected = tried.contains(&name) || HARMLESS.contains(&name);
            assert!(expected || name == "fcntl", "this failed: {}", call.short());
            return;
        }
        match name {
            "close" => return drop(self.open.remove(&call.descriptor(0))),
            "openat" => self.open(call),
            "write" | "pwrite64" => self.write(call),
            "ftruncate" => self.written(call).set_len(call.number(1)).unwrap(),
            "fallocate" => {
                assert_eq!(call.args[1], "FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE");
                let (offset, len) = (call.number(2), call.number(3));
                self.written(call).punch_hole(offset, len).unwrap();
            }
            "fsync" | "fdatasync" => self.sync(call),
            "mkdirat" => self.vfs.create_dir_all(&self.named(call, 1)).unwrap(),
            "unlinkat" => {
                let path = self.named(call, 1);
                let removed = match &*call.args[2] {
                    "AT_REMOVEDIR" => self.vfs.remove_dir(&path),
                    _ => self.vfs.remove(&path),
                };
                removed.unwrap();
            }
            "renameat" => {
                let (from, to) = (self.named(call, 1), self.named(call, 3));
                self.vfs.rename(&from, &to).unwrap();
            }
            "linkat" => {
                assert_eq!(call.args[4], "0");
                let (from, to) = (self.named(call, 1), self.named(call, 3));
                self.vfs.link(&from, &to).unwrap();
            }
            "fcntl" if !call.args[1].starts_with("F_DUPFD") => return,
            "mmap" if !call.args[3].contains("MAP_SHARED") => return,
            "dup" | "dup2" | "dup3" if !self.open.contains_key(&call.descriptor(0)) => return,
            _ if HARMLESS.contains(&name) => return,
            _ => panic!("the replay does not know this call: {}", call.short()),
        }
        *self.calls.entry(name.to_owned()).or_default() += 1;
    }

    /// The path in the simulated file system, of a name after a descriptor.
    fn named(&self, call: &Call, arg: usize) -> PathBuf {
        let path = call.path_at(arg);
        match path.strip_prefix(self.root) {
            Ok(below) => Path::new("/").join(below),
            Err(_) => panic!("a name that is not below the root: {}", call.short()),
        }
    }

    fn open(&mut self, call: &Call) {
        let flags: Vec<&str> = call.args[2].split('|').collect();
        let has = |flag: &str| flags.contains(&flag);
        let known = [
            "O_RDONLY",
            "O_WRONLY",
            "O_RDWR",
            "O_CREAT",
            "O_TRUNC",
            "O_CLOEXEC",
            "O_DIRECT",
            "O_LARGEFILE",
            "O_DIRECTORY",
            "O_NONBLOCK",
            "O_PATH",
        ];
        let unknown = flags.iter().find(|flag| !known.contains(flag));
        let is_marks = call.path_at(1) == self.marks;
        let open = if is_marks {
            Open::Marks
        } else if let Some(unknown) = unknown {
            panic!("the replay does not know {unknown}: {}", call.short());
        } else if has("O_RDONLY") {
            assert!(!has("O_CREAT") && !has("O_TRUNC"), "{}", call.short());
            Open::Read
        } else {
            if has("O_DIRECT") {
                *self.calls.entry("O_DIRECT".to_owned()).or_default() += 1;
            }
            let path = self.named(call, 1);
            let file = self
                .vfs
                .open_for_calls(&path, has("O_CREAT"), has("O_TRUNC"));
            Open::Written {
                file: file.unwrap(),
                position: 0,
            }
        };
        let before = self.open.insert(call.result, open);
        assert!(before.is_none(), "open already: {}", call.short());
    }

    fn written(&mut self, call: &Call) -> &CalledFile {
        match self.open.get(&call.descriptor(0)) {
            Some(Open::Written { file, .. }) => file,
            _ => panic!("not open for writing: {}", call.short()),
        }
    }

    fn write(&mut self, call: &Call) {
        let mut data = call.bytes(1);
        data.truncate(call.result as usize);
        match self.open.get_mut(&call.descriptor(0)) {
            Some(Open::Marks) => {
                (self.mark)(&self.vfs, self.marked);
                self.marked += 1;
            }
            Some(Open::Written { file, position }) if call.name == "write" => {
                file.write_at(*position, &data).unwrap();
                *position += data.len() as u64;
            }
            Some(Open::Written { file, .. }) => file.write_at(call.number(3), &data).unwrap(),
            _ => panic!("not open for writing: {}", call.short()),
        }
    }

    fn sync(&mut self, call: &Call) {
        match self.open.get(&call.descriptor(0)) {
            Some(Open::Written { file, .. }) => file.sync().unwrap(),
            Some(Open::Read) => {
                let path = call.paths().swap_remove(0);
                let below = path.strip_prefix(self.root).unwrap();
                assert_eq!(call.name, "fsync", "{}", call.short());
                // Fails for a file: nothing syncs a file that is open for reading.
                self.vfs.sync_dir(&Path::new("/").join(below)).unwrap();
            }
            _ => panic!("not open: {}", call.short()),
        }
    }
}

mod tests {
    use titan_testkit::sim::Loss;

    use super::super::strace::parse;
    use super::*;

    /// Replays a trace in which paths are readable.
    fn replayed(trace: &str) -> SimVfs {
        let mut hexadecimal = String::new();
        for (number, part) in trace.split('\'').enumerate() {
            match number % 2 {
                0 => hexadecimal += part,
                _ => hexadecimal.extend(part.bytes().map(|byte| format!("\\x{byte:02x}"))),
            }
        }
        let (root, marks) = (Path::new("/r"), Path::new("/marks"));
        replay(&parse(&hexadecimal), root, marks, |_, _| {}).vfs
    }

    fn after_a_crash(vfs: &SimVfs) -> SimVfs {
        let journal = vfs.journal();
        journal.crash_at(journal.len(), &Loss::All)
    }

    const CREATED: &str = "\
1 openat(AT_FDCWD<'/'>, \"'/r/f'\", O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0666) = 3<'/r/f'>
1 openat(AT_FDCWD<'/'>, \"'/r'\", O_RDONLY|O_CLOEXEC) = 4<'/r'>
1 write(3<'/r/f'>, \"'abc'\", 3) = 3
1 fsync(4<'/r'>) = 0
";

    #[test]
    fn bytes_are_durable_after_a_sync_and_not_before() {
        let vfs = replayed(CREATED);
        assert_eq!(after_a_crash(&vfs).read_all("/f").unwrap(), b"");
        let synced = "1 fdatasync(3<'/r/f'>) = 0\n1 close(3<'/r/f'>) = 0\n";
        let vfs = replayed(&format!("{CREATED}{synced}"));
        assert_eq!(after_a_crash(&vfs).read_all("/f").unwrap(), b"abc");
        let other = "1 openat(AT_FDCWD<'/'>, \"'/r/g'\", O_RDWR|O_CREAT, 0666) = 3<'/r/g'>\n";
        let vfs = replayed(&format!("{CREATED}{synced}{other}"));
        assert_eq!(vfs.list("/").unwrap(), ["f", "g"]);
        assert_eq!(after_a_crash(&vfs).list("/").unwrap(), ["f"]);
    }

    #[test]
    fn names_in_an_open_directory_are_those_of_its_files() {
        let vfs = replayed(
            "1 openat(AT_FDCWD<'/'>, \"'/r'\", O_RDONLY|O_CLOEXEC) = 4<'/r'>\n\
             1 mkdirat(4<'/r'>, \"'d'\", 0777) = 0\n\
             1 openat(4<'/r'>, \"'f'\", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3<'/r/f'>\n\
             1 renameat(4<'/r'>, \"'f'\", 4<'/r'>, \"'d/g'\") = 0\n\
             1 linkat(4<'/r'>, \"'d/g'\", AT_FDCWD<'/'>, \"'/r/h'\", 0) = 0\n\
             1 unlinkat(4<'/r'>, \"'d/g'\", 0) = 0\n\
             1 unlinkat(AT_FDCWD<'/'>, \"'/r/d'\", AT_REMOVEDIR) = 0\n",
        );
        assert_eq!(vfs.list("/").unwrap(), ["h"]);
    }

    #[test]
    fn a_sync_promises_nothing_about_a_write_during_it() {
        let vfs = replayed(&format!(
            "{CREATED}\
             1 fdatasync(3<'/r/f'> <unfinished ...>\n\
             2 pwrite64(3<'/r/f'>, \"'x'\", 1, 0) = 1\n\
             1 <... fdatasync resumed>) = 0\n"
        ));
        assert_eq!(vfs.read_all("/f").unwrap(), b"xbc");
        assert_eq!(after_a_crash(&vfs).read_all("/f").unwrap(), b"abc");
    }

    #[test]
    #[should_panic(expected = "does not know this call: line 5: copy_file_range(3</r/f>")]
    fn an_unknown_call_is_not_ignored() {
        let copied = "1 copy_file_range(3<'/r/f'>, NULL, 4<'/r/f'>, NULL, 10, 0) = 10\n";
        replayed(&format!("{CREATED}{copied}"));
    }

    #[test]
    #[should_panic(expected = "cannot see what this changes")]
    fn io_uring_is_not_ignored() {
        replayed("1 io_uring_setup(8, {flags=0}) = 5\n");
    }
}
