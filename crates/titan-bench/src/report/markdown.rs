//! A document as Markdown for GitHub. Plots are links to their files.

use super::document::{Block, Cell, Document, Heading, Plot, Table};

/// The whole document; plots are expected in this directory.
pub(crate) fn render(document: &Document, plots: &str) -> String {
    let mut text = format!("# {}\n", escaped(&document.title));
    for block in &document.blocks {
        text.push('\n');
        text.push_str(&match block {
            Block::Heading(heading) => render_heading(heading),
            Block::Text(words) => format!("{}\n", escaped(words)),
            Block::List(items) => items
                .iter()
                .map(|item| format!("- {}\n", escaped(item)))
                .collect(),
            Block::Table(table) => render_table(table),
            Block::Plot(plot) => render_plot(plot, plots),
            Block::Contents => render_contents(document),
        });
    }
    text
}

fn render_heading(heading: &Heading) -> String {
    let marks = "#".repeat(heading.level.into());
    format!(
        "<a id=\"{}\"></a>\n\n{marks} {}\n",
        heading.anchor,
        escaped(&heading.text)
    )
}

fn render_plot(plot: &Plot, plots: &str) -> String {
    format!(
        "[Plot: {}]({plots}/{})\n",
        escaped(&plot.caption),
        plot.file
    )
}

fn render_contents(document: &Document) -> String {
    let links = document.headings().map(|heading| {
        let indent = "  ".repeat(usize::from(heading.level).saturating_sub(2));
        format!(
            "{indent}- [{}](#{})\n",
            escaped(&heading.text),
            heading.anchor
        )
    });
    links.collect()
}

fn render_table(table: &Table) -> String {
    let mut text = String::new();
    if !table.caption.is_empty() {
        text = format!("{}\n\n", escaped(&table.caption));
    }
    let names = table.columns.iter().map(|column| escaped(&column.name));
    text.push_str(&render_row(names));
    let rule = table
        .columns
        .iter()
        .map(|column| if column.words { "---" } else { "---:" });
    text.push_str(&render_row(rule.map(str::to_owned)));
    for row in &table.rows {
        text.push_str(&render_row(row.iter().map(render_cell)));
    }
    text
}

fn render_row(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| {} |\n", cells.join(" | "))
}

fn render_cell(cell: &Cell) -> String {
    match &cell.link {
        Some(anchor) => format!("[{}](#{anchor})", escaped(&cell.text)),
        None => escaped(&cell.text),
    }
}

/// Escaped for Markdown, and in one line.
fn escaped(text: &str) -> String {
    let mut result = String::new();
    for character in text.chars() {
        match character {
            '\n' | '\r' => result.push(' '),
            '<' => result.push_str("&lt;"),
            '\\' | '`' | '|' | '*' | '[' | ']' => result.extend(['\\', character]),
            _ => result.push(character),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_becomes_markdown() {
        let mut document = Document {
            title: "A *title*".to_owned(),
            ..Document::default()
        };
        document.blocks.push(Block::Contents);
        document.heading(3, "Step", "step");
        let mut table = Table::new("", &[":engine", "rate"]);
        table.row(vec![Cell::from("a|b\nc").link("step".to_owned())]);
        document.table(table);
        let expected = "# A \\*title\\*\n\n  - [Step](#step)\n\n<a id=\"step\"></a>\n\n### Step\n\n\
                        | engine | rate |\n| --- | ---: |\n| [a\\|b c](#step) | – |\n";
        assert_eq!(render(&document, "plots"), expected);
    }
}
