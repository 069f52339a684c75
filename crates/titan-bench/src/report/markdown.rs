//! A page as Markdown for GitHub. Plots are pictures in files of their own.

use super::document::{Block, Document, Table};

/// The whole page.
pub(crate) fn render(document: &Document) -> String {
    let mut text = format!("# {}\n", escaped(&document.title));
    for block in &document.blocks {
        text.push('\n');
        text.push_str(&match block {
            Block::Heading(words) => format!("## {}\n", escaped(words)),
            Block::Text(words) => format!("{}\n", escaped(words)),
            Block::List(items) => items
                .iter()
                .map(|item| format!("- {}\n", escaped(item)))
                .collect(),
            Block::Commands(lines) => lines.iter().map(|line| format!("    {line}\n")).collect(),
            Block::Table(table) => render_table(table),
            Block::Plot(plot) => format!("![{}]({})\n", escaped(&plot.caption), plot.file),
        });
    }
    text
}

fn render_table(table: &Table) -> String {
    let mut text = String::new();
    if !table.caption.is_empty() {
        text = format!("**{}**\n\n", escaped(&table.caption));
    }
    let names = table.columns.iter();
    let names = names.map(|name| escaped(name.trim_start_matches(':')));
    text.push_str(&render_row(names));
    let rule = table
        .columns
        .iter()
        .map(|name| match name.starts_with(':') {
            true => "---".to_owned(),
            false => "---:".to_owned(),
        });
    text.push_str(&render_row(rule));
    for row in &table.rows {
        text.push_str(&render_row(row.iter().map(|cell| escaped(cell))));
    }
    text
}

fn render_row(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Escaped for Markdown, and in one line.
fn escaped(text: &str) -> String {
    let mut result = String::new();
    for character in text.chars() {
        match character {
            '\n' | '\r' => result.push(' '),
            '<' => result.push_str("&lt;"),
            '\\' | '|' | '*' | '[' | ']' | '_' => result.extend(['\\', character]),
            _ => result.push(character),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_markdown() {
        let mut document = Document {
            title: "A *title*".to_owned(),
            ..Document::default()
        };
        document.heading("Step");
        let mut table = Table::new("", [":engine", "rate"]);
        table.row(["a|b\nc", "–"]);
        document.table(table);
        document.table(Table::new("empty", ["x"]));
        let expected = "# A \\*title\\*\n\n## Step\n\n| engine | rate |\n| --- | ---: |\n\
                        | a\\|b c | – |\n";
        assert_eq!(render(&document), expected);
    }
}
