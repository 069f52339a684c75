//! Runs a program under `strace` and parses the system calls.
//!
//! All calls are recorded except reads and some that concern no files. `-xx` makes every string
//! hexadecimal, so that commas, quotes and brackets are never a part of one.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls that are not recorded: they change no file, and there are many.
const UNRECORDED: &str = "!read,pread64,readv,preadv,preadv2,futex,brk,munmap,mprotect,madvise,\
                          sched_yield,clock_nanosleep,%signal";

/// A system call that has returned.
#[derive(Debug)]
pub struct Call {
    pub name: String,
    /// As `strace` prints them.
    pub args: Vec<String>,
    /// The result; negative for a failure.
    pub result: i64,
    /// The line at which it began and the line at which it had returned.
    pub lines: (usize, usize),
}

/// A command that runs `program` and writes its system calls to `trace`.
pub fn traced(program: &Path, trace: &Path) -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-xx", "--seccomp-bpf", "-s", "16777216"]);
    strace.arg("-o").arg(trace);
    strace.arg("-e").arg(format!("trace={UNRECORDED}"));
    strace.arg(program);
    strace
}

/// Whether `strace` runs here and may trace a process.
pub fn works() -> Result<(), String> {
    let output = traced(Path::new("true"), Path::new("/dev/null")).output();
    let output = output.map_err(|e| format!("strace: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// All calls that returned, in the order of their return.
pub fn parse(trace: &str) -> Vec<Call> {
    let mut begun: Vec<(&str, usize, String)> = Vec::new();
    let mut calls = Vec::new();
    for (number, line) in trace.lines().enumerate() {
        let (thread, what) = line.split_once(' ').unwrap_or((line, ""));
        let what = what.trim_start();
        // Signals and ends of threads.
        if what.starts_with("---") || what.starts_with("+++") {
            continue;
        }
        if let Some(begin) = what.strip_suffix(" <unfinished ...>") {
            begun.push((thread, number, begin.to_owned()));
        } else if let Some(resumed) = what.strip_prefix("<... ") {
            let at = begun.iter().position(|(of, ..)| *of == thread);
            let (_, start, begin) = begun.swap_remove(at.unwrap());
            let (_, rest) = resumed.split_once(" resumed>").unwrap();
            calls.extend(call(&(begin + rest), (start, number)));
        } else {
            calls.extend(call(what, (number, number)));
        }
    }
    calls
}

/// Parses `name(arguments) = result ...`; `None` for a call that never returns.
fn call(text: &str, lines: (usize, usize)) -> Option<Call> {
    let parts = text.split_once('(').and_then(|(name, rest)| {
        let (args, result) = rest.rsplit_once(" = ")?;
        let args = args.trim_end().strip_suffix(')')?;
        Some((name, args, result.split([' ', '<']).next()?))
    });
    let (name, args, result) = parts.unwrap_or_else(|| unreadable(text, lines));
    let number = match result.strip_prefix("0x") {
        Some(address) => i64::from_str_radix(address, 16).ok(),
        None if result == "?" => return None,
        None => result.parse().ok(),
    };
    Some(Call {
        name: name.to_owned(),
        args: split(args),
        result: number.unwrap_or_else(|| unreadable(text, lines)),
        lines,
    })
}

fn unreadable<T>(text: &str, lines: (usize, usize)) -> T {
    panic!("line {} of the trace: {text:.200}", lines.0 + 1)
}

/// The arguments; structures and lists are not taken apart.
fn split(args: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in args.chars() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().unwrap().push(c);
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

impl Call {
    /// A file descriptor.
    pub fn descriptor(&self, arg: usize) -> i64 {
        let digits = self.args[arg].split('<').next();
        digits.unwrap().parse().unwrap_or_else(|_| self.cannot(arg))
    }

    /// A number.
    pub fn number(&self, arg: usize) -> u64 {
        self.args[arg].parse().unwrap_or_else(|_| self.cannot(arg))
    }

    /// The bytes of a string.
    pub fn bytes(&self, arg: usize) -> Vec<u8> {
        let quoted = self.args[arg].strip_prefix('"');
        let text = quoted.and_then(|text| text.strip_suffix('"'));
        unhex(text.unwrap_or_else(|| self.cannot(arg)))
    }

    /// The string as a path.
    pub fn path(&self, arg: usize) -> PathBuf {
        OsString::from_vec(self.bytes(arg)).into()
    }

    /// The string `arg` as a path in the directory of the descriptor before it.
    pub fn path_at(&self, arg: usize) -> PathBuf {
        match self.directory(arg - 1) {
            Some(directory) => directory.join(self.path(arg)),
            None => self.cannot(arg),
        }
    }

    /// The path of a descriptor.
    fn directory(&self, arg: usize) -> Option<PathBuf> {
        let (_, of_descriptor) = self.args.get(arg)?.split_once('<')?;
        let text = of_descriptor.split('>').next()?;
        let is_path = text.starts_with(r"\x2f");
        is_path.then(|| OsString::from_vec(unhex(text)).into())
    }

    /// All paths among the arguments: what descriptors lead to, strings that begin with `/`, and
    /// names in the directory of the descriptor before them.
    pub fn paths(&self) -> Vec<PathBuf> {
        let takes_names = self.name.contains("at") && !self.name.starts_with("fstat");
        let paths = (0..self.args.len()).filter_map(|arg| {
            let Some(text) = self.args[arg].strip_prefix('"') else {
                return self.directory(arg);
            };
            if text.starts_with(r"\x2f") {
                return Some(self.path(arg));
            }
            let directory = self.directory(arg.checked_sub(1)?)?;
            takes_names.then(|| directory.join(self.path(arg)))
        });
        paths.collect()
    }

    fn cannot(&self, arg: usize) -> ! {
        panic!("argument {arg} is not as expected: {}", self.short())
    }

    /// For people to read.
    pub fn short(&self) -> String {
        let args: Vec<String> = self.args.iter().map(|arg| readable(arg)).collect();
        let line = self.lines.0 + 1;
        format!(
            "line {line}: {}({}) = {}",
            self.name,
            args.join(", "),
            self.result
        )
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let (digits, rest) = text.as_bytes().as_chunks::<4>();
    assert!(rest.is_empty(), "not hexadecimal: {text:.200}");
    let byte = |four: &[u8; 4]| {
        let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
        assert_eq!(four[..2], *br"\x");
        digit(four[2]) << 4 | digit(four[3])
    };
    digits.iter().map(byte).collect()
}

fn readable(arg: &str) -> String {
    let mut text = String::new();
    let mut rest = arg;
    while let Some((before, from)) = rest.split_once(r"\x").filter(|_| text.len() < 120) {
        text += before;
        let (digits, after) = from.split_at(2);
        let byte = u8::from_str_radix(digits, 16).unwrap_or(b'?');
        text.extend(byte.escape_ascii().map(char::from));
        rest = after;
    }
    text + &rest[..rest.len().min(60)]
}

#[test]
fn calls_that_overlap_are_put_together() {
    let trace = "\
7 openat(AT_FDCWD<\\x2f>, \"\\x2f\\x61\\x2c\", O_WRONLY|O_CREAT, 0666 <unfinished ...>
8 fstat(4<\\x2f\\x62>, {st_mode=S_IFREG|0644, st_size=5}) = 0
7 <... openat resumed>)    = 3<\\x2f\\x61\\x2c>
8 fsync(4<\\x2f\\x62>) = -1 EIO (Input/output error)
8 --- SIGCHLD {si_signo=SIGCHLD} ---
8 exit_group(0) = ?
8 +++ exited with 0 +++
";
    let calls = parse(trace);
    let [stat, open, sync] = &calls[..] else {
        panic!("{calls:?}");
    };
    assert_eq!((&*stat.name, stat.args.len(), stat.result), ("fstat", 2, 0));
    assert_eq!((open.result, open.lines), (3, (0, 2)));
    assert_eq!(open.path(1), Path::new("/a,"));
    assert_eq!(open.paths(), [Path::new("/"), Path::new("/a,")]);
    assert_eq!((sync.descriptor(0), sync.result), (4, -1));
    assert_eq!(sync.paths(), [Path::new("/b")]);
}
