//! `tifs dump`: writes a volume as a stream.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tifs::dump::{Amount, dump};
use tifs::kv::Kv;

use super::interrupt::Interrupt;
use super::{Global, progress, volumes};

/// Write a volume to a file or to standard output
///
/// The stream has everything: content, attributes, times, links, extended attributes. tifs load
/// makes a volume of it. The file appears under its name when it is complete.
///
/// A mounted volume is written as of the begin of the command, with everything that programs had
/// written until then. Programs go on meanwhile; data that they delete or overwrite takes space
/// until the dump ends. If the mount cannot be reached, because it is in another namespace or under
/// another mount, the last writes that no program synced may be missing, and a warning says so.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the volume, its address on a cluster, or a path in a mounted one.
    dir: PathBuf,
    /// The file to write: a new one, a device or a pipe; standard output if it is not given or -.
    file: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  tifs dump /srv/volume | zstd > volume.zst
  tifs dump /srv/volume volume.dump
  tifs dump /mnt/files backup/files.dump";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    // Until it is open, a signal ends the command at once: a mount that does not answer is waited
    // for.
    let opened = volumes::open_store(&args.dir)?;
    opened.tell_moment();
    let interrupt = Interrupt::listen()?;
    let dumping = Dumping {
        store: opened.store,
        interrupt: &interrupt,
    };
    let file = args.file.as_deref().filter(|file| *file != Path::new("-"));
    let dumped = match file {
        None => dumping.write(io::stdout().lock()),
        Some(file) => dumping.write_file(file),
    };
    if dumped.is_err() && interrupt.came() {
        bail!("interrupted: the dump is not complete");
    }
    let amount = dumped.with_context(|| format!("cannot dump {}", args.dir.display()))?;
    let said = match global.json {
        true => serde_json::to_string(&amount)?,
        false => progress::amount(amount),
    };
    // Standard output may be the stream.
    let _ = writeln!(io::stderr(), "{said}");
    Ok(ExitCode::SUCCESS)
}

struct Dumping<'a> {
    store: Arc<dyn Kv>,
    interrupt: &'a Interrupt,
}

impl Dumping<'_> {
    fn write(&self, to: impl Write) -> Result<Amount> {
        let bar = progress::bytes_bar("dumping");
        let mut show = |amount: Amount| {
            bar.set_position(amount.bytes);
            !self.interrupt.came()
        };
        // The dump flushes it.
        let dumped = dump(&*self.store, &mut BufWriter::new(to), &mut show);
        bar.finish_and_clear();
        Ok(dumped?)
    }

    /// Writes a new file under another name, and gives it its own when it is complete and durable.
    /// A device or a pipe is written as it is.
    fn write_file(&self, path: &Path) -> Result<Amount> {
        match path.metadata() {
            Ok(there) if there.is_file() || there.is_dir() => bail!("{} exists", path.display()),
            Ok(_) => {
                let file = File::options().write(true).open(path);
                let file = file.with_context(|| format!("cannot write {}", path.display()))?;
                return self.write(file);
            }
            // Creating the file reports any other error.
            Err(_) => {}
        }
        let partial = Partial::create(path)?;
        let amount = self.write(&partial.file)?;
        partial.complete(path)?;
        Ok(amount)
    }
}

/// A file that is not complete. Unless it is [completed](Partial::complete), dropping it removes
/// it.
struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    /// A new file beside `path`.
    fn create(path: &Path) -> Result<Partial> {
        let Some(name) = path.file_name() else {
            bail!("{} is no name of a file", path.display());
        };
        let mut partial = name.to_owned();
        partial.push(format!(".{}.partial", std::process::id()));
        let partial = path.with_file_name(partial);
        // Only its owner may read it, regardless of the umask: it has data that users of the volume
        // keep from each other.
        let new = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&partial);
        let file = new.with_context(|| format!("cannot create {}", partial.display()))?;
        Ok(Partial {
            path: partial,
            file,
        })
    }

    /// Makes it durable, then gives it the name `path`, which must not exist.
    fn complete(self, path: &Path) -> Result<()> {
        let cannot = || format!("cannot create {}", path.display());
        // ORDER: the content is durable before the name says that it is complete.
        self.file.sync_all().with_context(cannot)?;
        match renameat_with(CWD, &self.path, CWD, path, RenameFlags::NOREPLACE) {
            // Not all file systems have that. Then a file that another process made just now is
            // lost.
            Err(Errno::INVAL | Errno::NOSYS) => fs::rename(&self.path, path),
            renamed => renamed.map_err(io::Error::from),
        }
        .with_context(cannot)?;
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.with_context(cannot)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Once it is complete, it has another name.
        let _: io::Result<()> = fs::remove_file(&self.path);
    }
}
