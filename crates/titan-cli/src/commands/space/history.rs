//! Space as it went over time: samples in a file of the user, a line of JSON each.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use titan::{Error, Result, SpaceReport};

/// The largest file of samples that is read: some months of one each second.
const MAX_BYTES: u64 = 1 << 30;

/// The begin of each sample.
const BEGIN: &str = "{\"unix_seconds\":";

/// The parts of a directory at one time, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sample {
    pub(super) unix_seconds: u64,
    pub(super) sst_bytes: u64,
    pub(super) blob_bytes: u64,
    /// Of the bytes of blob files: those to which no table points.
    pub(super) garbage_blob_bytes: u64,
    pub(super) wal_bytes: u64,
    pub(super) other_bytes: u64,
}

impl Sample {
    /// The sample of a report that was made now.
    pub(super) fn of(report: &SpaceReport) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let disk = &report.disk;
        Sample {
            unix_seconds: now.unwrap_or_default().as_secs(),
            sst_bytes: disk.sst_bytes,
            blob_bytes: disk.blob_bytes,
            garbage_blob_bytes: report.total.garbage_blob_bytes,
            wal_bytes: disk.wal_bytes,
            other_bytes: disk.map_bytes + disk.manifest_bytes + disk.other_bytes,
        }
    }

    /// All bytes of the directory.
    pub(super) fn total_bytes(&self) -> u64 {
        let parts = [self.blob_bytes, self.wal_bytes, self.other_bytes];
        // A file may say anything.
        parts.into_iter().fold(self.sst_bytes, u64::saturating_add)
    }
}

/// Appends a sample to the file, which is made if it is missing.
pub(super) fn append(path: &Path, sample: &Sample) -> Result<()> {
    let failed = |e| Error::io(e, "write", path);
    let mut line = serde_json::to_vec(sample).map_err(|e| failed(e.into()))?;
    line.push(b'\n');
    let opened = OpenOptions::new().create(true).append(true).open(path);
    // In one call, so that two that record never mix their lines.
    let appended = opened.and_then(|mut file| file.write_all(&line));
    appended.map_err(failed)
}

/// Cuts off a last line that has no end, as a full device leaves it, so that no sample follows it.
///
/// # Errors
/// Those of [`read`]; `InvalidArgument` if the last line does not begin as a sample does. Then
/// nothing has changed.
pub(super) fn mend(path: &Path) -> Result<()> {
    let text = match read_text(path) {
        Err(e) if e.is_not_found() => return Ok(()),
        text => text?,
    };
    let whole = whole_lines(&text);
    parse(whole, path)?;
    let rest = text.get(whole.len()..).unwrap_or_default();
    if rest.is_empty() {
        return Ok(());
    }
    if !rest.starts_with(BEGIN) && !BEGIN.starts_with(rest) {
        let what = "its last line is no sample of space";
        return Err(Error::invalid_argument(what).in_file(path));
    }
    let file = OpenOptions::new().write(true).open(path);
    let cut = file.and_then(|file| file.set_len(whole.len() as u64));
    cut.map_err(|e| Error::io(e, "write", path))
}

/// The samples of a file, the oldest first. A last line that has no end is one whose writing
/// failed, and left out.
///
/// # Errors
/// Failures to read; `InvalidArgument`, with its number, for a line that is no sample.
pub(super) fn read(path: &Path) -> Result<Vec<Sample>> {
    parse(whole_lines(&read_text(path)?), path)
}

fn read_text(path: &Path) -> Result<String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
        .map_err(|e| Error::io(e, "read", path))?;
    match text.len() as u64 {
        0..=MAX_BYTES => Ok(text),
        _ => {
            let what = format!("more than {MAX_BYTES} bytes of samples");
            Err(Error::invalid_argument(what).in_file(path))
        }
    }
}

/// The lines that have an end, with their ends.
fn whole_lines(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

fn parse(lines: &str, path: &Path) -> Result<Vec<Sample>> {
    let samples = lines.lines().enumerate().map(|(index, line)| {
        serde_json::from_str(line).map_err(|e| {
            let what = format!("line {} is no sample of space: {e}", index + 1);
            Error::invalid_argument(what).in_file(path)
        })
    });
    let mut samples: Vec<Sample> = samples.collect::<Result<_>>()?;
    // A clock may have been set back.
    samples.sort_by_key(|sample| sample.unix_seconds);
    Ok(samples)
}

/// At most `most` samples: of each stretch of time of the same length, the one with most bytes, so
/// that no peak is lost; and always the last one.
pub(super) fn thinned(samples: &[Sample], most: usize) -> Vec<Sample> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return Vec::new();
    };
    if samples.len() <= most {
        return samples.to_vec();
    }
    let stretches = most.saturating_sub(1).max(1) as u64;
    let length = (last.unix_seconds - first.unix_seconds) / stretches + 1;
    let mut kept: Vec<Sample> = Vec::new();
    let mut stretch = None;
    for sample in samples {
        let its = (sample.unix_seconds - first.unix_seconds) / length;
        match kept.last_mut() {
            Some(largest) if stretch == Some(its) => {
                if sample.total_bytes() > largest.total_bytes() {
                    *largest = *sample;
                }
            }
            _ => kept.push(*sample),
        }
        stretch = Some(its);
    }
    if kept.last() != Some(last) {
        kept.push(*last);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(unix_seconds: u64, sst_bytes: u64) -> Sample {
        Sample {
            unix_seconds,
            sst_bytes,
            blob_bytes: 2,
            garbage_blob_bytes: 1,
            wal_bytes: 3,
            other_bytes: 4,
        }
    }

    #[test]
    fn what_was_appended_is_read_and_a_line_without_an_end_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("space.jsonl");
        let samples = [sample(7, 10), sample(9, 20)];
        samples.iter().for_each(|s| append(&path, s).unwrap());
        assert_eq!(read(&path).unwrap(), samples);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{{\"unix_sec")).unwrap();
        assert_eq!(read(&path).unwrap(), samples);
        mend(&path).unwrap();
        append(&path, &sample(11, 30)).unwrap();
        assert_eq!(read(&path).unwrap()[2], sample(11, 30));
        mend(&dir.path().join("missing")).unwrap();
        std::fs::write(&path, format!("{text}none\n")).unwrap();
        let refused = read(&path).unwrap_err().to_string();
        assert!(refused.contains("line 3 is no sample"), "{refused}");
        std::fs::write(&path, "").unwrap();
        assert_eq!(read(&path).unwrap(), []);
    }

    #[test]
    fn a_file_of_others_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("photo.jpg");
        for content in [
            &b"no line"[..],
            b"a line\nand more",
            b"\xff\xd8\n\xff",
            b"{\"unix\": 1",
        ] {
            std::fs::write(&path, content).unwrap();
            mend(&path).unwrap_err();
            assert_eq!(std::fs::read(&path).unwrap(), content);
        }
        let most = sample(1, u64::MAX);
        assert_eq!(most.total_bytes(), u64::MAX);
    }

    #[test]
    fn thinning_keeps_peaks_and_the_last_one() {
        let mut samples: Vec<Sample> = (0..1000).map(|n| sample(n * 3, 10)).collect();
        samples[501].sst_bytes = 1000;
        let few = thinned(&samples, 50);
        assert!((40..=51).contains(&few.len()), "{}", few.len());
        assert!(few.contains(&samples[501]));
        assert_eq!(few.last(), samples.last());
        assert!(few.is_sorted_by_key(|s| s.unix_seconds));
        assert_eq!(thinned(&samples[..9], 50), &samples[..9]);
        assert_eq!(thinned(&[], 50), []);
        assert_eq!(thinned(&[sample(5, 1); 100], 10).len(), 1);
    }
}
