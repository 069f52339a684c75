//! A viewer beside the writer of a database: it follows, locks nothing and changes nothing.
//!
//! The two are mostly in different processes, as `titan scan` beside a program. Here one process
//! has both.
//!
//! `cargo run -p titandb --example viewer`

use std::path::Path;

use titan::{Db, ErrorKind, Options, Result, Secondary};

/// Temperatures of rooms, as of the moment that the viewer has caught up with.
struct Board {
    secondary: Secondary,
}

impl Board {
    fn open(path: &Path) -> Result<Self> {
        let secondary = Secondary::open(path, &Options::default())?;
        Ok(Board { secondary })
    }

    /// Catches up with the writer. Pages that are being shown stay at their moment.
    fn refresh(&self) -> Result<()> {
        // `Busy` if files change faster than they can be read: the page stays as it is, until next
        // time.
        match self.secondary.try_catch_up() {
            Err(e) if e.kind() == ErrorKind::Busy => Ok(()),
            caught_up => caught_up,
        }
    }

    fn page(&self) -> Page {
        Page {
            db: self.secondary.db(),
        }
    }
}

/// A page: everything on it is of one moment, however long it is shown.
struct Page {
    db: Db,
}

impl Page {
    fn lines(&self) -> Result<Vec<String>> {
        let rows = self.db.prefix("room/");
        rows.map(|row| {
            let (room, temperature) = row?;
            Ok(format!(
                "{} {}",
                room.escape_ascii(),
                temperature.escape_ascii()
            ))
        })
        .collect()
    }

    /// The number of the last write that the page shows.
    fn moment(&self) -> u64 {
        self.db.moment().map_or(0, |moment| moment.sequence)
    }
}

pub(crate) fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let writer = Db::open(dir.path(), &Options::default())?;
    writer.put("room/1", "20.5")?;
    let board = Board::open(dir.path())?; // not refused, though the writer has the database
    let first = board.page();
    assert_eq!(first.lines()?, ["room/1 20.5"]);

    // What the writer has logged is seen, flushed or not, and after a flush too.
    writer.put("room/1", "21.0")?;
    writer.flush()?;
    writer.put("room/2", "19.0")?;
    assert_eq!(board.page().lines()?, ["room/1 20.5"]);
    board.refresh()?;
    let second = board.page();
    assert_eq!(second.lines()?, ["room/1 21.0", "room/2 19.0"]);
    assert_eq!(first.lines()?, ["room/1 20.5"]);
    assert!(second.moment() > first.moment());

    // A viewer cannot write, and nobody else can while the writer has the database.
    let refused = second.db.put("room/3", "0");
    assert_eq!(refused.map_err(|e| e.kind()), Err(ErrorKind::ReadOnly));
    let second_writer = Db::open(dir.path(), &Options::default()).map(drop);
    assert_eq!(second_writer.map_err(|e| e.kind()), Err(ErrorKind::Locked));

    // The page outlives the writer.
    writer.close()?;
    assert_eq!(second.lines()?.len(), 2);
    Ok(())
}
