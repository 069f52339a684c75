//! The options after `-o`: those of every file system, and those of a volume.

use std::path::PathBuf;
use std::time::Duration;

use tifs::fuse;
use tifs::volume::AccessTime;

/// The values of the options.
#[derive(Clone, Debug)]
pub(super) struct MountOptions {
    /// For the kernel and the session.
    pub(super) session: fuse::Options,
    /// The rule for the time of the last access.
    pub(super) access_time: AccessTime,
    /// The directory of the volume to mount; all of the volume if it is not given.
    pub(super) subdirectory: Option<String>,
    /// Make the volume if there is none.
    pub(super) create: bool,
    /// The file for messages of a mount in the background.
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
            create: true,
            log: None,
            slow: Duration::from_secs(1),
        }
    }
}

/// The reason why an option was refused.
#[derive(Debug)]
enum Refused {
    /// There is none with this name.
    Unknown,
    /// Its value is wrong, for this reason.
    Because(String),
}

/// Takes options that are separated by commas; of those that exclude each other, the last one
/// counts.
///
/// # Errors
/// An option that does not exist, or a value that it cannot have.
pub(super) fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<MountOptions, String> {
    let mut options = MountOptions::default();
    for word in words(texts) {
        options.set(word).map_err(|refused| match refused {
            Refused::Because(what) => what,
            Refused::Unknown => format!(
                "there is no option {word}; there are: ro, rw, nodev, nosuid, noexec, sync, noatime, \
                 relatime, strictatime, nocreate, subdir=PATH, threads=N, fast_wakeups, \
                 nofast_wakeups, slow=TIME, log=FILE"
            ),
        })?;
    }
    Ok(options)
}

/// The options that exist, in the same order.
pub(super) fn existing<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<String> {
    let exists = |word: &&str| {
        let set = MountOptions::default().set(word);
        !matches!(set, Err(Refused::Unknown))
    };
    words(texts).filter(exists).map(str::to_owned).collect()
}

fn words<'t>(texts: impl IntoIterator<Item = &'t str>) -> impl Iterator<Item = &'t str> {
    let words = texts.into_iter().flat_map(|text| text.split(','));
    words.filter(|word| !word.is_empty())
}

impl MountOptions {
    /// Whether a volume is made if there is none.
    pub(super) fn makes_volumes(&self) -> bool {
        self.create && !self.session.read_only
    }

    fn set(&mut self, word: &str) -> Result<(), Refused> {
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
            ("atime" | "relatime" | "norelatime" | "nostrictatime", None) => {
                self.access_time = AccessTime::Relative;
            }
            ("strictatime", None) => self.access_time = AccessTime::Strict,
            ("nocreate", None) => self.create = false,
            ("subdir" | "threads" | "slow" | "log", None | Some("")) => {
                let what = format!("the option {name} needs a value: {name}=...");
                return Err(Refused::Because(what));
            }
            ("threads", Some(number)) => session.threads = threads(number)?,
            ("slow", Some(time)) => self.slow = duration(time)?,
            ("subdir", Some(path)) if path.split('/').any(|name| name == "..") => {
                let what =
                    format!("{word}: the path begins at the root of the volume and has no ..");
                return Err(Refused::Because(what));
            }
            ("subdir", Some(path)) => self.subdirectory = Some(path.to_owned()),
            ("log", Some(file)) => self.log = Some(file.into()),
            ("remount", None) => {
                let what = "remount: a volume keeps the options with which it was mounted; to change them, \
                            unmount it with tifs umount and mount it again";
                return Err(Refused::Because(what.to_owned()));
            }
            // mount(8): these imply others, which later ones can take back.
            ("user" | "users", _) => {
                session.devices = false;
                session.set_user_id = false;
                session.execute = false;
            }
            ("owner" | "group", None) => {
                session.devices = false;
                session.set_user_id = false;
            }
            // Options that mount(8) and fstab(5) have for themselves.
            (
                "defaults" | "auto" | "noauto" | "nofail" | "_netdev" | "nouser" | "silent"
                | "loud",
                None,
            )
            | ("comment" | "helper" | "uhelper", _) => {}
            (name, _) if name.starts_with("x-") || name.starts_with("X-") => {}
            // Always the case: ACLs and attributes are kept, locks are never mandatory, reading a
            // directory changes no times, and times are stored with the changes that set them.
            ("acl" | "user_xattr" | "nomand" | "diratime" | "nodiratime", None)
            | ("lazytime" | "nolazytime", None) => {}
            _ => return Err(Refused::Unknown),
        }
        Ok(())
    }
}

fn threads(number: &str) -> Result<usize, Refused> {
    let threads = number.parse().ok();
    let threads = threads.filter(|threads| (1..=64).contains(threads));
    threads.ok_or_else(|| Refused::Because(format!("threads={number}: the number must be 1 to 64")))
}

fn duration(time: &str) -> Result<Duration, Refused> {
    humantime::parse_duration(time)
        .map_err(|_| Refused::Because(format!("slow={time}: this is no time such as 100ms or 2s")))
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
    fn options_of_fstab_are_taken() {
        let of_mount = [
            "defaults,noauto,x-systemd.requires=a.service,comment=b,nofail,_netdev,X-mount.mkdir",
            "nodiratime,diratime,lazytime,acl,user_xattr,relatime,nomand",
        ];
        let options = parse(of_mount).unwrap();
        assert!(options.session.devices && options.session.execute && options.makes_volumes());
        let flags = |text| {
            let session = parse([text]).unwrap().session;
            (session.devices, session.set_user_id, session.execute)
        };
        assert_eq!(flags("user"), (false, false, false));
        assert_eq!(flags("user=ada"), (false, false, false));
        assert_eq!(flags("users,exec"), (false, false, true));
        assert_eq!(flags("owner"), (false, false, true));
        assert_eq!(flags("group,dev"), (true, false, true));
    }

    #[test]
    fn a_volume_is_made_unless_an_option_says_otherwise() {
        let makes = |text| parse([text]).unwrap().makes_volumes();
        assert!(makes("rw"));
        assert!(!makes("nocreate") && !makes("ro"));
    }

    #[test]
    fn what_does_not_exist_can_be_left_out() {
        let existing = existing(["bogus,ro,size=1g", "subdir=,noatime"]);
        assert_eq!(existing, ["ro", "subdir=", "noatime"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |text| parse([text]).unwrap_err();
        assert!(said("ro,swift").contains("swift"));
        assert!(said("swift").contains("nofast_wakeups"));
        assert!(said("threads=none").contains("threads=none"));
        assert!(said("threads=0").contains("1 to 64"));
        assert!(said("ro=1").contains("ro=1"));
        assert!(said("slow=soon").contains("100ms"));
        for option in ["subdir=", "log=", "log", "threads", "slow="] {
            assert!(said(option).contains("needs a value"), "{option}");
        }
        assert!(said("subdir=a/../b").contains("has no .."));
        assert!(said("remount,ro").contains("tifs umount"));
    }
}
