//! The options after `-o`: those of every file system, and those of a volume.

use std::path::PathBuf;
use std::time::Duration;

use tifs::fuse;
use tifs::volume::AccessTime;

/// What the options say.
#[derive(Clone, Debug)]
pub(super) struct MountOptions {
    /// For the kernel and the session.
    pub(super) session: fuse::Options,
    /// When reads change the time of the last access.
    pub(super) access_time: AccessTime,
    /// The directory of the volume to mount; all of the volume if it is not given.
    pub(super) subdirectory: Option<String>,
    /// Where messages of a mount in the background go.
    pub(super) log: Option<PathBuf>,
    /// An operation that takes this long is reported.
    pub(super) slow: Duration,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            session: fuse::Options::default(),
            access_time: AccessTime::default(),
            subdirectory: None,
            log: None,
            slow: Duration::from_secs(1),
        }
    }
}

/// Takes options that are separated by commas; of those that exclude each other, the last one counts.
///
/// # Errors
/// An option that does not exist, or a value that it cannot have.
pub(super) fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<MountOptions, String> {
    let mut options = MountOptions::default();
    let words = texts.into_iter().flat_map(|text| text.split(','));
    for word in words.filter(|word| !word.is_empty()) {
        options.set(word)?;
    }
    Ok(options)
}

impl MountOptions {
    fn set(&mut self, word: &str) -> Result<(), String> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let session = &mut self.session;
        match (name, value) {
            ("ro", None) => session.read_only = true,
            ("rw", None) => session.read_only = false,
            ("dev", None) => session.devices = true,
            ("nodev", None) => session.devices = false,
            ("suid", None) => session.set_user_id = true,
            ("nosuid", None) => session.set_user_id = false,
            ("exec", None) => session.execute = true,
            ("noexec", None) => session.execute = false,
            ("sync", None) => session.synchronous = true,
            ("async", None) => session.synchronous = false,
            ("fast_wakeups", None) => session.fast_wakeups = Some(true),
            ("nofast_wakeups", None) => session.fast_wakeups = Some(false),
            ("noatime", None) => self.access_time = AccessTime::Never,
            ("relatime" | "atime", None) => self.access_time = AccessTime::Relative,
            ("strictatime", None) => self.access_time = AccessTime::Strict,
            ("threads", Some(number)) => {
                session.threads = number
                    .parse()
                    .ok()
                    .filter(|threads| (1..=64).contains(threads))
                    .ok_or_else(|| format!("threads={number}: the number must be 1 to 64"))?;
            }
            ("slow", Some(time)) => {
                self.slow = humantime::parse_duration(time)
                    .map_err(|_| format!("slow={time}: this is no time such as 100ms or 2s"))?;
            }
            ("subdir", Some(path)) if !path.is_empty() => {
                self.subdirectory = Some(path.to_owned());
            }
            ("log", Some(file)) if !file.is_empty() => self.log = Some(file.into()),
            // What mount(8) and fstab(5) have for themselves.
            ("defaults" | "auto" | "noauto" | "nofail" | "_netdev" | "nouser", None)
            | ("comment", _) => {}
            (name, _) if name.starts_with("x-") => {}
            _ => {
                return Err(format!(
                    "there is no option {word}; there are: ro, rw, nodev, nosuid, noexec, sync, \
                     noatime, relatime, strictatime, subdir=PATH, threads=N, fast_wakeups, \
                     nofast_wakeups, slow=TIME, log=FILE"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;

    #[test]
    fn the_last_of_options_that_exclude_each_other_counts() {
        let options = parse(["ro,nosuid,,threads=2", "rw,strictatime,slow=100ms"]).unwrap();
        assert!(!options.session.read_only && !options.session.set_user_id);
        assert_eq!(options.session.threads, 2);
        assert_eq!(options.access_time, AccessTime::Strict);
        assert_eq!(options.slow, Duration::from_millis(100));
    }

    #[test]
    fn options_of_fstab_are_not_ours() {
        assert!(parse(["defaults,noauto,x-systemd.requires=a.service,comment=b"]).is_ok());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |text| parse([text]).unwrap_err();
        assert!(said("ro,swift").contains("swift"));
        assert!(said("swift").contains("nofast_wakeups"));
        assert!(said("threads=none").contains("threads=none"));
        assert!(said("threads=0").contains("1 to 64"));
        assert!(said("ro=1").contains("ro=1"));
        assert!(said("log=").contains("log="));
        assert!(said("slow=soon").contains("100ms"));
        assert!(said("subdir=").contains("subdir="));
    }
}
