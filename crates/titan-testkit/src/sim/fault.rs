//! Faults: which operations fail, how often, and which effect they have nevertheless. The text
//! form of a fault is in [`fault_text`](super::fault_text).

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::op::{Call, OpKind};

/// An operating system's error number (Linux).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// EIO: the medium failed.
    pub const IO: Errno = Errno(5);
    /// EXDEV: a link would cross file systems.
    pub const CROSS_DEVICE: Errno = Errno(18);
    /// EMFILE: the process has too many open files.
    pub const TOO_MANY_FILES: Errno = Errno(24);
    /// ENOSPC: no space is left.
    pub const NO_SPACE: Errno = Errno(28);
    /// EOPNOTSUPP: the file system does not support the operation.
    pub const NOT_SUPPORTED: Errno = Errno(95);

    pub(super) fn error(self) -> io::Error {
        io::Error::from_raw_os_error(self.0)
    }
}

/// Effect of a failing operation before it reports failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    Prefix(usize),
    /// It reports no failure, but reads at most this many bytes.
    Short(usize),
    LosesPages,
    Everything,
}

type Predicate = Arc<dyn Fn(&Call<'_>) -> bool + Send + Sync>;

/// A rule that makes operations fail; pass it to [`SimVfs::inject`](super::SimVfs::inject).
///
/// ```
/// use titan_testkit::sim::{Errno, Fault, OpKind, SimVfs};
///
/// let vfs = SimVfs::new();
/// // The third and fourth append to any blob file find the device full.
/// let full = vfs.inject(
///     Fault::on([OpKind::Append]).path("*.blob").skip(2).times(2).error(Errno::NO_SPACE),
/// );
/// assert_eq!(full.hits(), 0);
/// ```
///
/// The same as text, for command lines and files of failing cases:
///
/// ```
/// use titan_testkit::sim::Fault;
///
/// let text = "append on *.blob nth 3 times 2 error ENOSPC";
/// assert_eq!(Fault::parse(text)?.to_string(), text);
/// // The third write to a blob file after the first flush.
/// Fault::parse("append on *.blob nth 3 after sync on *.sst")?;
/// # Ok::<(), titan::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "a fault does nothing until injected"]
pub struct Fault {
    pub(super) which: Operations,
    pub(super) predicate: Option<Predicate>,
    /// The fault is inactive until this many of these operations have begun.
    pub(super) after: Option<(u64, Operations)>,
    pub(super) skip: u64,
    pub(super) times: Option<u64>,
    pub(super) errno: Errno,
    pub(super) effect: Effect,
}

/// Operations by kind and path.
#[derive(Clone)]
pub(super) struct Operations {
    pub(super) kinds: Vec<OpKind>,
    pub(super) pattern: Option<String>,
}

impl Operations {
    pub(super) fn of(kinds: impl IntoIterator<Item = OpKind>) -> Self {
        Operations {
            kinds: kinds.into_iter().collect(),
            pattern: None,
        }
    }

    fn include(&self, call: &Call<'_>) -> bool {
        self.kinds.contains(&call.kind)
            && self.pattern.as_ref().is_none_or(|pattern| {
                let mut paths = std::iter::once(call.path).chain(call.to);
                paths.any(|path| path_matches(pattern, path))
            })
    }
}

impl Fault {
    /// Operations of these kinds fail: the first one, with EIO, without effect.
    pub fn on(kinds: impl IntoIterator<Item = OpKind>) -> Self {
        Fault {
            which: Operations::of(kinds),
            predicate: None,
            after: None,
            skip: 0,
            times: Some(1),
            errno: Errno::IO,
            effect: Effect::Nothing,
        }
    }

    /// Only on paths that match `pattern`, in which `*` stands for any text and `?` for one
    /// character. A pattern without `/` is compared with the file name. A rename or link matches
    /// by either of its names.
    pub fn path(mut self, pattern: &str) -> Self {
        self.which.pattern = Some(pattern.to_owned());
        self
    }

    /// Only if `predicate` also returns true. It must not use the file system.
    pub fn when(mut self, predicate: impl Fn(&Call<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.predicate = Some(Arc::new(predicate));
        self
    }

    /// Only after the `n`th operation of these kinds on paths that match `pattern`; that operation
    /// itself is not affected. It need not have succeeded.
    pub fn after(mut self, n: u64, kinds: impl IntoIterator<Item = OpKind>, pattern: &str) -> Self {
        let mut operations = Operations::of(kinds);
        operations.pattern = Some(pattern.to_owned());
        self.after = Some((n, operations));
        self
    }

    /// The first `n` matching operations succeed.
    pub fn skip(mut self, n: u64) -> Self {
        self.skip = n;
        self
    }

    /// The next `n` matching operations fail, later ones succeed.
    pub fn times(mut self, n: u64) -> Self {
        self.times = Some(n);
        self
    }

    /// All matching operations from then on fail.
    pub fn forever(mut self) -> Self {
        self.times = None;
        self
    }

    /// Sets the error reported.
    pub fn error(mut self, errno: Errno) -> Self {
        self.errno = errno;
        self
    }

    /// A failing append first writes at most `len` bytes.
    pub fn after_writing(mut self, len: usize) -> Self {
        self.effect = Effect::Prefix(len);
        self
    }

    /// A read reports no failure, but returns at most `len` bytes, as if the file ended there.
    /// Operations of other kinds are not affected.
    pub fn short(mut self, len: usize) -> Self {
        self.effect = Effect::Short(len);
        self
    }

    /// A failing sync makes the kernel drop the unsynced bytes: reads still see them, the medium
    /// never will, though later syncs succeed.
    pub fn losing_pages(mut self) -> Self {
        self.effect = Effect::LosesPages;
        self
    }

    /// A failing operation takes its full effect first.
    pub fn after_the_fact(mut self) -> Self {
        self.effect = Effect::Everything;
        self
    }

    fn matches(&self, call: &Call<'_>) -> bool {
        self.which.include(call)
            && (call.kind == OpKind::Read || !matches!(self.effect, Effect::Short(_)))
            && self.predicate.as_ref().is_none_or(|says_so| says_so(call))
    }
}

/// Reports the effects of an injected [`Fault`].
#[derive(Clone, Debug)]
pub struct FaultHandle(Arc<AtomicU64>);

impl FaultHandle {
    /// Number of operations that it made fail. A test that injects a fault should assert that it
    /// struck.
    pub fn hits(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The active faults.
#[derive(Default)]
pub(super) struct Faults(Vec<Armed>);

struct Armed {
    fault: Fault,
    /// Matching operations so far.
    seen: u64,
    /// Operations so far of those that it waits for.
    awaited: u64,
    hits: Arc<AtomicU64>,
}

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) -> FaultHandle {
        let hits = Arc::new(AtomicU64::new(0));
        self.0.push(Armed {
            fault,
            seen: 0,
            awaited: 0,
            hits: Arc::clone(&hits),
        });
        FaultHandle(hits)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The fault that strikes this operation. Every matching fault counts the operation; the one
    /// injected first strikes.
    pub(super) fn strike(&mut self, call: &Call<'_>) -> Option<(Errno, Effect)> {
        let mut struck = None;
        for armed in &mut self.0 {
            if let Some((n, operations)) = &armed.fault.after
                && armed.awaited < *n
            {
                armed.awaited += u64::from(operations.include(call));
                continue;
            }
            if !armed.fault.matches(call) {
                continue;
            }
            let Fault {
                skip,
                times,
                errno,
                effect,
                ..
            } = &armed.fault;
            let nth = armed.seen;
            armed.seen += 1;
            let due = nth >= *skip && times.is_none_or(|times| nth - *skip < times);
            if due && struck.is_none() {
                armed.hits.fetch_add(1, Ordering::SeqCst);
                struck = Some((*errno, *effect));
            }
        }
        struck
    }
}

fn path_matches(pattern: &str, path: &Path) -> bool {
    let text = if pattern.contains('/') {
        Some(path.as_os_str())
    } else {
        path.file_name()
    };
    text.and_then(|text| text.to_str())
        .is_some_and(|text| glob(pattern, text))
}

/// Whether `pattern`, with `*` and `?`, matches all of `text`.
fn glob(pattern: &str, text: &str) -> bool {
    let Some(first) = pattern.chars().next() else {
        return text.is_empty();
    };
    let rest = &pattern[first.len_utf8()..];
    if first == '*' {
        let ends = text.char_indices().map(|(i, _)| i).chain([text.len()]);
        return ends.into_iter().any(|i| glob(rest, &text[i..]));
    }
    let mut chars = text.chars();
    chars
        .next()
        .is_some_and(|c| (first == '?' || first == c) && glob(rest, chars.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_whole_names() {
        let cases = [
            ("*.blob", "/db/000007.blob", true),
            ("*.blob", "/db/000007.blobx", false),
            ("MANIFEST-*", "/db/MANIFEST-000001", true),
            ("00000?.log", "/db/000003.log", true),
            ("00000?.log", "/db/000013.log", false),
            ("CURRENT", "/db/CURRENT", true),
            ("/db/*.sst", "/db/1.sst", true),
            ("/db/*.sst", "/other/1.sst", false),
            ("*", "/db/x", true),
            ("é*é", "/éaé", true),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(
                path_matches(pattern, Path::new(path)),
                expected,
                "{pattern} {path}"
            );
        }
    }
}
