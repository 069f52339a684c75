//! Options of an `Env`.

use crate::error::{Result, require};
use crate::vfs::{Resources, StdVfs, Vfs};

/// Resources that the databases of an [`Env`](crate::Env) share. Names and meanings are those of
/// [`DbOptions`](crate::DbOptions), for all of its databases together.
#[derive(Clone, Debug)]
pub struct EnvOptions {
    /// Threads for flushes and compactions of all databases; with 2 or more, one is always reserved
    /// for flushes. Each database also has a bound of its own,
    /// [`DbOptions::max_background_jobs`](crate::DbOptions::max_background_jobs). One more thread
    /// collects garbage, and one reads files into the kernel's cache while databases are opened.
    /// Must be 1 to 256. Default: 8.
    pub max_background_jobs: usize,
    /// Bytes of uncompressed SST blocks in the block cache. Default: 64 MiB.
    pub block_cache_size: u64,
    /// Number of SST and blob files that are kept open between uses; 0 means three quarters of the
    /// process's limit. Must be 0, or 16 to that limit. Default: 0.
    pub max_open_files: usize,
    /// Bytes of memory that open files may take; 0 means a quarter of the process's memory. Must be
    /// 0 or at least 1 MiB. Default: 0.
    pub max_open_files_memory: u64,
    /// Bytes of all memtables, near which the largest one of any database is flushed: at
    /// seven eighths, or at all of it with those that are being flushed, if half of it is not. It
    /// may be exceeded while flushes run. Memtables of databases that cannot flush, or are closed,
    /// make no other one flush earlier than at half of it. 0 means that only
    /// [`write_buffer_size`](crate::ColumnFamilyOptions::write_buffer_size) counts. Must be 0 or at
    /// least 64 KiB. Default: 0.
    pub db_write_buffer_size: u64,
    /// Bytes per second that collections may read and write together while any database is in use
    /// and the space of all is within bounds. Must be at least 1 MiB. Default: 64 MiB.
    pub blob_garbage_collection_rate: u64,
}

impl Default for EnvOptions {
    fn default() -> Self {
        EnvOptions {
            max_background_jobs: 8,
            block_cache_size: 64 << 20,
            max_open_files: 0,
            max_open_files_memory: 0,
            db_write_buffer_size: 0,
            blob_garbage_collection_rate: 64 << 20,
        }
    }
}

impl EnvOptions {
    /// Checks every range, and whether all fits in the process.
    ///
    /// # Errors
    /// `InvalidOption` naming the option, the rule and the value.
    pub fn validate(&self) -> Result<()> {
        self.validate_in(&StdVfs.resources())
    }

    fn validate_in(&self, process: &Resources) -> Result<()> {
        require(
            (1..=256).contains(&self.max_background_jobs),
            "EnvOptions::max_background_jobs",
            "1 to 256",
            self.max_background_jobs as u64,
        )?;
        self.check_sizes("EnvOptions::")?;
        let files = self.max_open_files as u64;
        let most = process.open_files.unwrap_or(u64::MAX);
        require(
            files <= most,
            "EnvOptions::max_open_files",
            &format!("no more than the files that the process may open, {most}"),
            files,
        )?;
        require(
            self.blob_garbage_collection_rate >= 1 << 20,
            "EnvOptions::blob_garbage_collection_rate",
            "at least 1 MiB",
            self.blob_garbage_collection_rate,
        )?;
        let stated = [
            self.block_cache_size,
            self.max_open_files_memory,
            self.db_write_buffer_size,
        ];
        let stated = stated.into_iter().fold(0, u64::saturating_add);
        // Where it is not known, nothing is refused; nor is the default, which nobody has stated.
        let memory = process.memory.map_or(u64::MAX, |memory| memory.total);
        require(
            stated <= memory.max(EnvOptions::default().block_cache_size),
            "EnvOptions::block_cache_size, max_open_files_memory and db_write_buffer_size",
            &format!("together no more than the memory of the process, {memory} bytes"),
            stated,
        )
    }
}

impl EnvOptions {
    /// Checks sizes that may be 0, or at least so much. Names begin with `of`.
    pub(crate) fn check_sizes(&self, of: &str) -> Result<()> {
        let sizes = [
            ("max_open_files", self.max_open_files as u64, 16, "16"),
            (
                "max_open_files_memory",
                self.max_open_files_memory,
                1 << 20,
                "1 MiB",
            ),
            (
                "db_write_buffer_size",
                self.db_write_buffer_size,
                64 << 10,
                "64 KiB",
            ),
        ];
        for (name, size, least, text) in sizes {
            let is_in_range = size == 0 || size >= least;
            let (name, rule) = (format!("{of}{name}"), format!("0 or at least {text}"));
            require(is_in_range, &name, &rule, size)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::Memory;

    #[test]
    fn options_out_of_range_and_those_that_contradict_the_process_are_refused_by_name() {
        let process = Resources {
            open_files: Some(1000),
            memory: Some(Memory {
                total: 1 << 30,
                left: 1 << 29,
            }),
        };
        let said = |change: fn(&mut EnvOptions)| {
            let mut options = EnvOptions::default();
            change(&mut options);
            let refused = options.validate_in(&process);
            refused.err().map(|e| e.message().to_owned())
        };
        assert_eq!(said(|_| {}), None);
        for (change, names) in [
            (
                (|o| o.max_background_jobs = 0) as fn(&mut EnvOptions),
                "EnvOptions::max_background_jobs must be 1 to 256, not 0",
            ),
            (|o| o.max_open_files = 15, "max_open_files must be 0 or"),
            (
                |o| o.max_open_files = 1001,
                "max_open_files must be no more than the files that the process may open, 1000",
            ),
            (
                |o| o.max_open_files_memory = 1,
                "max_open_files_memory must be",
            ),
            (|o| o.db_write_buffer_size = 1, "db_write_buffer_size must"),
            (
                |o| o.blob_garbage_collection_rate = 0,
                "blob_garbage_collection_rate must",
            ),
            (
                |o| o.db_write_buffer_size = 1 << 30,
                "together no more than the memory of the process, 1073741824 bytes",
            ),
            (
                |o| o.block_cache_size = u64::MAX,
                "block_cache_size, max_open_files_memory and db_write_buffer_size",
            ),
        ] {
            let said = said(change).unwrap();
            assert!(said.contains(names), "{said}");
        }
    }
}
