//! A page as one self-contained HTML file, for light and dark screens and for paper: style sheet
//! and plots are in it.

use super::document::{Block, Document, Table, slug};

const STYLE_SHEET: &str = include_str!("report.css");

/// The whole page.
pub(crate) fn render(document: &Document) -> String {
    let title = escaped(&document.title);
    let headings = document.blocks.iter().filter_map(|block| match block {
        Block::Heading(text) => Some(text),
        _ => None,
    });
    let links: String = headings
        .map(|text| {
            format!(
                "<li><a href=\"#{}\">{}</a></li>\n",
                slug(text),
                escaped(text)
            )
        })
        .collect();
    let body: String = document.blocks.iter().map(render_block).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE_SHEET}</style>\n</head>\n\
         <body>\n<main>\n<h1>{title}</h1>\n<nav aria-label=\"Contents\">\n<ul>\n{links}</ul>\n</nav>\n\
         {body}</main>\n</body>\n</html>\n"
    )
}

fn render_block(block: &Block) -> String {
    match block {
        Block::Heading(text) => format!("<h2 id=\"{}\">{}</h2>\n", slug(text), escaped(text)),
        Block::Text(text) => format!("<p>{}</p>\n", escaped(text)),
        Block::Commands(lines) => format!("<pre>{}</pre>\n", escaped(&lines.join("\n"))),
        Block::List(items) => {
            let items = items.iter();
            let items: String = items
                .map(|item| format!("<li>{}</li>\n", escaped(item)))
                .collect();
            format!("<ul>\n{items}</ul>\n")
        }
        Block::Table(table) => render_table(table),
        Block::Plot(plot) => {
            let caption = escaped(&plot.caption);
            let picture = match &plot.svg {
                Some(svg) => svg.clone(),
                None => format!("<img src=\"{}\" alt=\"{caption}\">\n", escaped(&plot.file)),
            };
            format!("<figure role=\"img\" aria-label=\"{caption}\">\n{picture}</figure>\n")
        }
    }
}

fn render_table(table: &Table) -> String {
    let row = |tag: &str, cells: &[String]| -> String {
        let cells = table.columns.iter().zip(cells).map(|(column, cell)| {
            let class = match column.starts_with(':') {
                true => " class=\"words\"",
                false => "",
            };
            let text = escaped(cell.trim_start_matches(':'));
            format!("<{tag}{class}>{text}</{tag}>")
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let head = row("th", &table.columns);
    let rows: String = table.rows.iter().map(|cells| row("td", cells)).collect();
    let caption = escaped(&table.caption);
    format!(
        "<div class=\"wide\">\n<table>\n<caption>{caption}</caption>\n<thead>{head}</thead>\n<tbody>\n\
         {rows}</tbody>\n</table>\n</div>\n"
    )
}

/// Escaped for HTML and for SVG.
pub(super) fn escaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => result.push_str("&amp;"),
            '<' => result.push_str("&lt;"),
            '>' => result.push_str("&gt;"),
            '"' => result.push_str("&quot;"),
            '\'' => result.push_str("&#39;"),
            _ => result.push(character),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::document::Plot;
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_place() {
        let nasty = "</td><script>alert('\"&\")</script>";
        let mut document = Document {
            title: nasty.to_owned(),
            ..Document::default()
        };
        document.heading(nasty);
        document.text(nasty);
        document.list(vec![nasty.to_owned()]);
        document
            .blocks
            .push(Block::Commands(vec![nasty.to_owned()]));
        let mut table = Table::new(nasty, [nasty]);
        table.row([nasty]);
        document.table(table);
        document.blocks.push(Block::Plot(Plot {
            file: nasty.to_owned(),
            caption: nasty.to_owned(),
            svg: None,
        }));
        let html = render(&document);
        assert!(!html.contains("<script") && !html.contains(nasty));
        assert_eq!(html.matches("&lt;script&gt;").count(), 13);
    }
}
