//! Printing of entries by commands: a key with its value.

use std::io::Read;
use std::process::ExitCode;

use serde_json::{Map, Value};
use titan::{Error, LazyValue, Result, WideColumns};

use crate::complaints::Complaints;
use crate::keys;
use crate::output::{self, Out};

/// Bytes of a value that are in memory at once.
const PIECE: usize = 1 << 20;

/// Prints one value, byte for byte, or with its key as an object.
pub(crate) fn print_value(key: &[u8], value: &[u8], json: bool) -> Result<()> {
    let mut out = Out::new();
    if json {
        let mut object = Map::new();
        keys::insert_json(&mut object, "key", key, false);
        keys::insert_json(&mut object, "value", value, false);
        out.json_line(&object)?;
    } else {
        out.bytes(value)?;
    }
    out.flush()
}

/// Prints one value, byte for byte, in pieces.
pub(crate) fn print_bytes(value: &LazyValue) -> Result<()> {
    let (mut out, mut reader) = (Out::new(), value.reader());
    let mut piece = vec![0; PIECE];
    loop {
        match reader.read(&mut piece)? {
            0 => return out.flush(),
            read => out.bytes(piece.get(..read).unwrap_or_default())?,
        }
    }
}

/// Says that only default columns were printed.
pub(crate) fn tell_of_columns() {
    output::tell("titan: there are keys with several columns; --json prints all of them");
}

/// Prints entries, one a line, and goes on after values that cannot be read.
pub(crate) struct Entries {
    out: Out,
    line: Vec<u8>,
    json: bool,
    hex: bool,
    /// Entries that are left out.
    unread: u64,
    /// Entries of which only the default column is printed.
    cut: u64,
    complaints: Complaints,
}

impl Entries {
    pub(crate) fn new(json: bool, hex: bool) -> Self {
        Entries {
            out: Out::new(),
            line: Vec::new(),
            json,
            hex,
            unread: 0,
            cut: 0,
            complaints: Complaints::default(),
        }
    }

    /// Prints an entry, or only its key.
    pub(crate) fn print(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.print_with(key, value, None)
    }

    /// The same with its other columns, if it has any. They are printed only as JSON.
    pub(crate) fn print_with(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        columns: Option<&Map<String, Value>>,
    ) -> Result<()> {
        if self.json {
            let mut object = Map::new();
            keys::insert_json(&mut object, "key", key, self.hex);
            if let Some(value) = value {
                keys::insert_json(&mut object, "value", value, self.hex);
            }
            if let Some(columns) = columns {
                object.insert("columns".to_owned(), columns.clone().into());
            }
            return self.out.json_line(&object);
        }
        self.cut += u64::from(columns.is_some());
        let push = match self.hex {
            true => keys::push_hex,
            false => keys::push_escaped,
        };
        self.line.clear();
        push(&mut self.line, key);
        if let Some(value) = value {
            self.line.extend_from_slice(b" : ");
            push(&mut self.line, value);
        }
        self.line.push(b'\n');
        self.out.bytes(&self.line)
    }

    /// Reports that a value could not be read.
    pub(crate) fn leave_out(&mut self, key: &[u8], error: Error) {
        let key = keys::escaped(key);
        let error = error.context(format_args!("value of `{key}`"));
        self.complaints.tell(&error);
        self.unread += 1;
    }

    /// The columns of an entity but for the default one, as an object; none if there are no others.
    ///
    /// # Errors
    /// Those of reading them.
    pub(crate) fn other_columns(
        &self,
        columns: &WideColumns,
    ) -> Result<Option<Map<String, Value>>> {
        let mut object = Map::new();
        for (name, value) in columns.iter().filter(|(name, _)| !name.is_empty()) {
            // Values that are not printed are not read.
            let value = match self.json {
                true => value.fetch()?,
                false => titan::Bytes::new(),
            };
            let mut column = Map::new();
            keys::insert_json(&mut column, "name", name, self.hex);
            let name = column.values().next().and_then(Value::as_str);
            let name = name.unwrap_or_default().to_owned();
            keys::insert_json(&mut object, &name, &value, self.hex);
        }
        Ok((!object.is_empty()).then_some(object))
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        self.out.flush()?;
        if std::mem::take(&mut self.cut) > 0 {
            tell_of_columns();
        }
        Ok(())
    }

    /// The status with which the command ends.
    ///
    /// # Errors
    /// Entries were left out.
    pub(crate) fn status(&self) -> Result<ExitCode> {
        let Some(kind) = self.complaints.kind else {
            return Ok(ExitCode::SUCCESS);
        };
        let values = output::count(self.unread);
        let text = format!("{values} values not read, see above; --keys-only prints their keys");
        Err(Error::new(kind, text))
    }
}
