//! Opens a database in the way that a command needs.

use std::path::Path;
use std::sync::Arc;

use titan::{
    ColumnFamily, ColumnFamilyId, ColumnFamilyOptions, Db, Error, ErrorKind, EventListener,
    Options, Result, Secondary, WalDamageEvent,
};

use crate::global::Global;
use crate::{config, output};

/// Access of a command to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only reads: the database must exist, and nothing in its directory is changed. If another
    /// process has it open, it is shown as of one moment, and standard error says so.
    Read,
    /// Copies it: the database must exist, and only a flush changes it.
    Copy,
    /// Changes it: the database must exist.
    Write,
    /// Changes it, and creates no families: the database must exist.
    WriteExisting,
    /// Changes it, and creates the database and its families if they are missing.
    Create,
}

/// Opens the database with the user's options, adjusted to the command.
pub(crate) fn open(path: &Path, global: &Global, access: Access) -> Result<Db> {
    open_with(path, global, access, Vec::new())
}

/// The same, with listeners of the command.
pub(crate) fn open_with(
    path: &Path,
    global: &Global,
    access: Access,
    listeners: Vec<Arc<dyn EventListener>>,
) -> Result<Db> {
    opened(path, options(path, global)?, global, access, listeners)
}

/// The same, with these options.
pub(crate) fn opened(
    path: &Path,
    mut options: Options,
    global: &Global,
    access: Access,
    listeners: Vec<Arc<dyn EventListener>>,
) -> Result<Db> {
    options.db.listeners.extend(listeners);
    options.db.create_if_missing = access == Access::Create;
    options
        .db
        .listeners
        .push(Arc::new(TellDamage { json: global.json }));
    let db = match access {
        Access::Read => return read(path, &options, global.json),
        Access::Copy => {
            only_for_families_of(path, &mut options);
            options.db.keep_options = false;
            let families = options.families.values_mut();
            for family in families.chain([&mut options.default]) {
                family.disable_auto_compactions = true;
                family.enable_blob_garbage_collection = false;
            }
            Db::open(path, &options)
        }
        Access::WriteExisting => {
            only_for_families_of(path, &mut options);
            Db::open(path, &options)
        }
        Access::Write | Access::Create => Db::open(path, &options),
    }?;
    output::tell_taken_options(db.taken_options(), global.json);
    Ok(db)
}

/// Whether there is a database, perhaps one that cannot be opened.
pub(crate) fn has_database(dir: &Path) -> bool {
    dir.join("CURRENT").exists()
}

/// The options of `--config` for the database there. A family that exists keeps the merge operator
/// and the prefix extractor that are recorded for it, unless its own table names others: those of
/// `[default]` are for new families.
pub(crate) fn options(path: &Path, global: &Global) -> Result<Options> {
    let mut options = config::options(global)?;
    let of_default = (
        options.default.merge_operator.clone(),
        options.default.prefix_extractor.clone(),
    );
    if options.families.is_empty() || matches!(of_default, (None, None)) {
        return Ok(options);
    }
    // If the directory is wrong, opening it reports the error.
    let names = Db::list_column_families(path, &options).unwrap_or_default();
    for name in names {
        let Some(family) = options.families.get_mut(&name) else {
            continue;
        };
        if is_same(&family.merge_operator, &of_default.0) {
            family.merge_operator = None;
        }
        if is_same(&family.prefix_extractor, &of_default.1) {
            family.prefix_extractor = None;
        }
    }
    Ok(options)
}

fn is_same<T: ?Sized>(one: &Option<Arc<T>>, other: &Option<Arc<T>>) -> bool {
    one.as_ref()
        .zip(other.as_ref())
        .is_some_and(|(one, other)| Arc::ptr_eq(one, other))
}

/// Says on standard error that an opening found damage in the WAL and went on.
struct TellDamage {
    json: bool,
}

impl EventListener for TellDamage {
    fn wal_damaged(&self, event: &WalDamageEvent) {
        output::tell_wal_damage(event, self.json);
    }
}

/// Gives `options` an entry for each family of the database, and none for others: those would
/// be created.
fn only_for_families_of(path: &Path, options: &mut Options) {
    let mut given = std::mem::take(&mut options.families);
    // If the directory is wrong, opening it reports the error.
    let names = Db::list_column_families(path, options);
    for name in names.unwrap_or_default() {
        match given.remove(&name) {
            Some(family) => drop(options.families.insert(name, family)),
            // It has a field of its own.
            None if name == ColumnFamilyId::DEFAULT_NAME => {}
            None => drop(
                options
                    .families
                    .insert(name, ColumnFamilyOptions::default()),
            ),
        }
    }
}

/// Opens the database to read it while another process has it open.
fn read(path: &Path, options: &Options, json: bool) -> Result<Db> {
    match Db::open_read_only(path, options) {
        Err(e) if e.kind() == ErrorKind::Locked => {
            let db = Secondary::open(path, options)?.db();
            output::tell_moment(db.moment(), json);
            Ok(db)
        }
        opened => opened,
    }
}

/// The family of this name; the default one without a name.
pub(crate) fn family(db: &Db, name: Option<&str>) -> Result<ColumnFamily> {
    let Some(name) = name else {
        return Ok((**db).clone());
    };
    db.column_family(name).ok_or_else(|| {
        let there: Vec<String> = db
            .column_families()
            .iter()
            .map(|f| f.name().to_owned())
            .collect();
        let message = format!("column family {name}; there are: {}", there.join(", "));
        Error::new(ErrorKind::NotFound, message)
    })
}

/// The family of this name; all of them without a name.
pub(crate) fn family_or_all(db: &Db, name: Option<&str>) -> Result<Vec<ColumnFamily>> {
    match name {
        Some(_) => Ok(vec![family(db, name)?]),
        None => Ok(db.column_families()),
    }
}

/// The most bytes of the name of a new family: as of a file's.
const MAX_NAME: usize = 255;

/// Takes a name for a new family. An empty one is that of a variable which is not set; one with
/// control characters cannot be listed on a line.
///
/// # Errors
/// The reason for which it is refused.
pub(crate) fn new_name(text: &str) -> std::result::Result<String, &'static str> {
    if text.is_empty() {
        Err("the name is empty")
    } else if text.len() > MAX_NAME {
        Err("the name has more than 255 bytes")
    } else if text.contains(char::is_control) {
        Err("the name has a control character, such as a line feed")
    } else {
        Ok(text.to_owned())
    }
}

/// The family of this name; if it is missing, it is created with the options configured for it.
pub(crate) fn family_or_new(db: &Db, name: Option<&str>, global: &Global) -> Result<ColumnFamily> {
    match name {
        Some(name) if db.column_family(name).is_none() => {
            let name = &*new_name(name).map_err(|why| {
                Error::invalid_argument(format!("no column family is created: {why}"))
            })?;
            db.create_column_family(name, config::options(global)?.family(name).clone())
        }
        _ => family(db, name),
    }
}
