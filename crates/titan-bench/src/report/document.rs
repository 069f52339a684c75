//! The contents of a report, before it becomes HTML or Markdown: headings, paragraphs, tables
//! and plots.
//!
//! All text here is plain: renderers escape it.

/// A report, from top to bottom.
#[derive(Default)]
pub(crate) struct Document {
    pub(crate) title: String,
    pub(crate) blocks: Vec<Block>,
}

pub(crate) enum Block {
    Heading(Heading),
    Text(String),
    List(Vec<String>),
    Table(Table),
    Plot(Plot),
    /// A list of links to all headings.
    Contents,
}

pub(crate) struct Heading {
    /// From 2 on: 1 is that of the title.
    pub(crate) level: u8,
    pub(crate) text: String,
    /// The target of links.
    pub(crate) anchor: String,
}

pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

pub(crate) struct Column {
    pub(crate) name: String,
    /// Words are aligned left, figures right.
    pub(crate) words: bool,
}

#[derive(Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) tone: Tone,
    /// The anchor to which it links.
    pub(crate) link: Option<String>,
}

/// The meaning of a cell's text; the text expresses it too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Faint,
    /// The text is an engine's name.
    Engine,
}

pub(crate) struct Plot {
    /// The name of the file next to the report.
    pub(crate) file: String,
    pub(crate) caption: String,
    pub(crate) svg: String,
}

impl Document {
    pub(crate) fn heading(&mut self, level: u8, text: impl Into<String>, anchor: &str) {
        let (text, anchor) = (text.into(), anchor.to_owned());
        self.blocks.push(Block::Heading(Heading {
            level,
            text,
            anchor,
        }));
    }

    pub(crate) fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// Adds nothing if it is empty.
    pub(crate) fn list(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            self.blocks.push(Block::List(items));
        }
    }

    /// Adds nothing if it has no rows.
    pub(crate) fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Table(table));
        }
    }

    pub(crate) fn headings(&self) -> impl Iterator<Item = &Heading> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Heading(heading) => Some(heading),
            _ => None,
        })
    }

    pub(crate) fn plots(&self) -> impl Iterator<Item = &Plot> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Plot(plot) => Some(plot),
            _ => None,
        })
    }
}

impl Table {
    /// Columns whose names begin with `:` contain words.
    pub(crate) fn new(caption: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|name| Column {
            name: name.trim_start_matches(':').to_owned(),
            words: name.starts_with(':'),
        });
        Table {
            caption: caption.to_owned(),
            columns: columns.collect(),
            rows: Vec::new(),
        }
    }

    /// Missing cells are empty.
    pub(crate) fn row(&mut self, mut row: Vec<Cell>) {
        row.resize_with(self.columns.len(), Cell::nothing);
        self.rows.push(row);
    }
}

impl Cell {
    pub(crate) fn nothing() -> Self {
        Cell::from("–").tone(Tone::Faint)
    }

    pub(crate) fn engine(name: &str) -> Self {
        Cell::from(name).tone(Tone::Engine)
    }

    pub(crate) fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    pub(crate) fn link(mut self, anchor: String) -> Self {
        self.link = Some(anchor);
        self
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell {
            text: text.into(),
            ..Cell::default()
        }
    }
}

/// A name as part of an anchor or of a file's name.
pub(crate) fn slug(name: &str) -> String {
    let lower = name.chars().map(|c| c.to_ascii_lowercase());
    let plain = lower.map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    plain.collect()
}
