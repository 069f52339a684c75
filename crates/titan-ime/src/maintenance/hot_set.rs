//! The hot set: the held ranges, remembered over a restart in a small file beside the database.
//!
//! The file is text: a line with the name of the format; one with the state (`on`, `off`), the
//! number of panics of maintenance and the reason in hexadecimal; a line for each range with its
//! encoded bounds in hexadecimal, its bytes and its worth; a checksum of the other lines. The file
//! is replaced as a whole. It is a hint: a missing or damaged file is an empty hot set, and a
//! failed write is repeated by the next one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use titan::vfs::{Access, Vfs};
use xxhash_rust::xxh3::xxh3_64;

use crate::content::keys::EncodedRange;
use crate::segments::faults::Faults;
use crate::segments::segment::Segment;

const FIRST_LINE: &str = "titan-ime hot set 2";
/// The largest file. A larger one is not ours; a larger hot set loses the ranges of least worth.
const LARGEST: u64 = 4 << 20;

/// A range of the hot set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hot {
    pub(crate) range: EncodedRange,
    pub(crate) is_pinned: bool,
    /// Its bytes when the file was written.
    pub(crate) bytes: u64,
    /// Its worth when the file was written.
    pub(crate) worth: i64,
}

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HotSet {
    pub(crate) ranges: Vec<Hot>,
    /// The faults of the cache.
    pub(crate) faults: Faults,
}

/// The file of a store.
pub(crate) struct HotSetFile {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
}

/// The ranges that are held: neighbouring segments are one.
pub(crate) fn held(segments: &[Arc<Segment>]) -> Vec<Hot> {
    let mut held: Vec<Hot> = Vec::new();
    for segment in segments {
        let Some(bytes) = segment.root().as_ref().map(|root| root.bytes as u64) else {
            continue;
        };
        let worth = segment.costs.worth();
        match held.last_mut() {
            Some(last)
                if last.range.1.as_deref() == Some(&*segment.lower)
                    && last.is_pinned == segment.is_pinned() =>
            {
                last.range.1 = segment.range().1;
                last.bytes += bytes;
                last.worth += worth;
            }
            _ => held.push(Hot {
                range: segment.range(),
                is_pinned: segment.is_pinned(),
                bytes,
                worth,
            }),
        }
    }
    held
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    text.len()
        .is_multiple_of(2)
        .then(|| digits.map(byte).collect())?
}

fn line(hot: &Hot) -> String {
    let (lower, upper) = &hot.range;
    let kind = if hot.is_pinned { "pinned" } else { "held" };
    let upper = upper.as_deref().map_or("end".to_owned(), hex);
    let lower = hex(lower);
    format!("{kind} \"{lower}\" {upper} {} {}\n", hot.bytes, hot.worth)
}

fn faults_line(faults: &Faults) -> String {
    let state = if faults.is_off { "off" } else { "on" };
    let what = faults.what.as_deref().unwrap_or_default();
    // Some of it says what is wrong.
    let what = what.as_bytes().get(..1_000).unwrap_or(what.as_bytes());
    format!("{state} {} \"{}\"\n", faults.panics, hex(what))
}

fn faults(line: &str) -> Option<Faults> {
    let words: Vec<&str> = line.split(' ').collect();
    let [state, panics, what] = *words else {
        return None;
    };
    let is_off = match state {
        "off" => true,
        "on" => false,
        _ => return None,
    };
    let what = unhex(what.strip_prefix('"')?.strip_suffix('"')?)?;
    Some(Faults {
        is_off,
        panics: panics.parse().ok()?,
        what: (!what.is_empty()).then(|| String::from_utf8_lossy(&what).into_owned()),
    })
}

fn encode(hot_set: &HotSet) -> String {
    let ranges = &hot_set.ranges;
    let mut lines: Vec<(&Hot, String)> = ranges.iter().map(|hot| (hot, line(hot))).collect();
    let mut size: usize = lines.iter().map(|(_, line)| line.len()).sum();
    let most = LARGEST as usize - 4096;
    if size > most {
        lines.sort_by_key(|(hot, _)| (hot.is_pinned, hot.worth));
        let fits = |(_, line): &(&Hot, String)| {
            let fits = size <= most;
            size -= line.len();
            fits
        };
        let first = lines.iter().position(fits).unwrap_or(lines.len());
        lines.drain(..first);
        lines.sort();
    }
    let lines = lines.into_iter().map(|(_, line)| line);
    let text: String = [format!("{FIRST_LINE}\n"), faults_line(&hot_set.faults)]
        .into_iter()
        .chain(lines)
        .collect();
    let sum = xxh3_64(text.as_bytes());
    text + &format!("{sum:016x}\n")
}

/// The content of a file; none if it is damaged.
fn decode(text: &str) -> Option<HotSet> {
    let (content, sum) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let content = format!("{content}\n");
    if sum != format!("{:016x}", xxh3_64(content.as_bytes())) {
        return None;
    }
    let lines: Vec<&str> = content.lines().collect();
    let [first, second, lines @ ..] = &*lines else {
        return None;
    };
    if *first != FIRST_LINE {
        return None;
    }
    let range = |line: &&str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, lower, upper, bytes, worth] = *words else {
            return None;
        };
        let is_pinned = match kind {
            "pinned" => true,
            "held" => false,
            _ => return None,
        };
        let lower = unhex(lower.strip_prefix('"')?.strip_suffix('"')?)?;
        let upper = match upper {
            "end" => None,
            upper => Some(unhex(upper)?),
        };
        Some(Hot {
            range: (lower, upper),
            is_pinned,
            bytes: bytes.parse().ok()?,
            worth: worth.parse().ok()?,
        })
    };
    Some(HotSet {
        ranges: lines.iter().map(range).collect::<Option<_>>()?,
        faults: faults(second)?,
    })
}

/// The path of the file of a store.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join("IME-HOT-SET")
}

/// The content of a file; none if it is missing or damaged.
pub(crate) fn read(vfs: &dyn Vfs, path: &Path) -> Option<HotSet> {
    let file = vfs.open(path, Access::Sequential).ok()?;
    let size = file.size().ok().filter(|size| *size <= LARGEST)?;
    let bytes = file.read_exact_at(0, size as usize).ok()?;
    decode(std::str::from_utf8(&bytes).ok()?)
}

impl HotSetFile {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, dir: &Path) -> Self {
        let path = path(dir);
        HotSetFile { vfs, path }
    }

    /// The remembered ranges; none if the file is missing or damaged.
    pub(crate) fn read(&self) -> HotSet {
        read(&*self.vfs, &self.path).unwrap_or_default()
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// Those of the file system. The file is unchanged then.
    pub(crate) fn write(&self, hot_set: &HotSet) -> titan::Result<()> {
        let temporary = self.path.with_extension("tmp");
        let mut file = self.vfs.create(&temporary)?;
        file.append(encode(hot_set).as_bytes())?;
        // ORDER: the content before the name, so that a crash leaves the old file or the new one.
        file.sync()?;
        drop(file);
        self.vfs.rename(&temporary, &self.path)?;
        match self.path.parent() {
            Some(dir) => self.vfs.sync_dir(dir),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[cfg(workspace)]
mod tests {
    use titan_testkit::sim::SimVfs;

    use super::*;

    #[test]
    fn what_was_written_is_read_and_whatever_is_damaged_is_nothing() {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new());
        vfs.create_dir_all(Path::new("/store")).unwrap();
        let file = HotSetFile::new(Arc::clone(&vfs), Path::new("/store"));
        assert_eq!(file.read(), HotSet::default());
        let hot = |range, is_pinned, worth| Hot {
            range,
            is_pinned,
            bytes: 12,
            worth,
        };
        let ranges = vec![
            hot((Vec::new(), Some(vec![0, 255])), false, -7),
            hot((vec![1, 2], None), true, 7),
        ];
        let set = |ranges: &[Hot]| HotSet {
            ranges: ranges.to_vec(),
            faults: Faults::default(),
        };
        let mut off = set(&ranges);
        off.faults = Faults {
            is_off: true,
            panics: 7,
            what: Some("it said \"ü\"\nand ended".to_owned()),
        };
        for written in [set(&ranges), set(&ranges[1..]), off] {
            file.write(&written).unwrap();
            assert_eq!(file.read(), written);
        }
        // What is too much is not written, and what is worth most is.
        let many: Vec<_> = (0..100_000_u32)
            .map(|n| {
                let lower = [&[7; 20][..], &n.to_be_bytes()].concat();
                let upper = [&[7; 20][..], &n.to_be_bytes(), &[1]].concat();
                hot((lower, Some(upper)), n == 5, i64::from(n % 1_000))
            })
            .collect();
        file.write(&set(&many)).unwrap();
        let left = file.read().ranges;
        assert!((20_000..50_000).contains(&left.len()), "{}", left.len());
        assert!(left.is_sorted() && left.contains(&many[5]));
        let least = left
            .iter()
            .filter(|hot| !hot.is_pinned)
            .map(|hot| hot.worth);
        let least = least.min().unwrap();
        let more = many.iter().filter(|hot| hot.worth > least).count();
        assert!(left.len() > more, "{least}, {more}");
        let whole = encode(&set(&ranges));
        for len in 0..whole.len() {
            assert_eq!(decode(&whole[..len]), None, "{len}");
        }
        for n in 0..whole.len() {
            let mut damaged = whole.clone().into_bytes();
            damaged[n] ^= 1;
            let damaged = std::str::from_utf8(&damaged).unwrap();
            assert_eq!(decode(damaged), None, "{n}");
        }
    }
}
