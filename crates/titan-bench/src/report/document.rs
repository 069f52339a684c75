//! The contents of a page, before it becomes HTML or Markdown.
//!
//! All text here is plain: renderers escape it.

/// A page, from top to bottom.
#[derive(Default)]
pub(crate) struct Document {
    pub(crate) title: String,
    pub(crate) blocks: Vec<Block>,
}

pub(crate) enum Block {
    Heading(String),
    Text(String),
    List(Vec<String>),
    /// Commands, one a line.
    Commands(Vec<String>),
    Table(Table),
    Plot(Plot),
}

pub(crate) struct Table {
    pub(crate) caption: String,
    /// Those whose names begin with `:` contain words, the others figures.
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

pub(crate) struct Plot {
    /// Its path from the page.
    pub(crate) file: String,
    pub(crate) caption: String,
    /// None if the file is there already.
    pub(crate) svg: Option<String>,
}

impl Document {
    pub(crate) fn heading(&mut self, text: &str) {
        self.blocks.push(Block::Heading(text.to_owned()));
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

    pub(crate) fn plots(&self) -> impl Iterator<Item = &Plot> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Plot(plot) => Some(plot),
            _ => None,
        })
    }
}

impl Table {
    pub(crate) fn new<T: Into<String>>(
        caption: &str,
        columns: impl IntoIterator<Item = T>,
    ) -> Self {
        Table {
            caption: caption.to_owned(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<T: Into<String>>(&mut self, row: impl IntoIterator<Item = T>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }
}

/// A name as part of an anchor or of a file's name.
pub(crate) fn slug(name: &str) -> String {
    let lower = name.chars().map(|c| c.to_ascii_lowercase());
    let plain: String = lower
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-")
}
