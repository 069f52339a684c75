//! A document as one self-contained HTML file, which includes style sheet and plots.
//!
//! Plots have the colours for light paper as attributes; the style sheet maps each of them to a
//! variable, so that they follow the reader's preference, and are light in print.

use super::document::{Block, Cell, Document, Heading, Plot, Table, Tone};
use super::plots::style;

const STYLE_SHEET: &str = include_str!("report.css");

/// The whole document.
pub(crate) fn render(document: &Document) -> String {
    let title = escaped(&document.title);
    let body: String = document
        .blocks
        .iter()
        .map(|block| render_block(block, document))
        .collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{}{STYLE_SHEET}</style>\n</head>\n\
         <body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n",
        colours()
    )
}

/// Variables for all colours, and the attributes of plots that they replace.
fn colours() -> String {
    let variables = |of: fn(&style::Colour) -> String| -> String {
        let colours = style::COLOURS.iter();
        colours
            .map(|colour| format!("--{}: {}; ", colour.name, of(colour)))
            .collect()
    };
    let attributes = style::COLOURS.iter().map(|colour| {
        let (name, hex) = (colour.name, style::hex(colour.light));
        format!(
            "svg [fill=\"{hex}\"] {{ fill: var(--{name}); }}\n\
             svg [stroke=\"{hex}\"] {{ stroke: var(--{name}); }}\n"
        )
    });
    format!(
        ":root {{ {}}}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {}}} }}\n{}",
        variables(|colour| style::hex(colour.light)),
        variables(|colour| style::hex(colour.dark)),
        attributes.collect::<String>()
    )
}

fn render_block(block: &Block, document: &Document) -> String {
    match block {
        Block::Heading(heading) => render_heading(heading),
        Block::Text(text) => format!("<p>{}</p>\n", escaped(text)),
        Block::List(items) => {
            let items = items
                .iter()
                .map(|item| format!("<li>{}</li>\n", escaped(item)));
            format!("<ul>\n{}</ul>\n", items.collect::<String>())
        }
        Block::Table(table) => render_table(table),
        Block::Plot(plot) => render_plot(plot),
        Block::Contents => render_contents(document),
    }
}

fn render_heading(heading: &Heading) -> String {
    let (level, anchor) = (heading.level, escaped(&heading.anchor));
    format!(
        "<h{level} id=\"{anchor}\">{}</h{level}>\n",
        escaped(&heading.text)
    )
}

fn render_plot(plot: &Plot) -> String {
    let caption = escaped(&plot.caption);
    let svg = &plot.svg;
    format!(
        "<figure role=\"img\" aria-label=\"{caption}\">\n{svg}<figcaption>{caption}</figcaption>\n\
         </figure>\n"
    )
}

fn render_contents(document: &Document) -> String {
    let links = document.headings().map(|heading| {
        format!(
            "<li class=\"level-{}\"><a href=\"#{}\">{}</a></li>\n",
            heading.level,
            escaped(&heading.anchor),
            escaped(&heading.text)
        )
    });
    format!(
        "<nav aria-label=\"Contents\">\n<ul>\n{}</ul>\n</nav>\n",
        links.collect::<String>()
    )
}

fn render_table(table: &Table) -> String {
    let class = |words| if words { " class=\"words\"" } else { "" };
    let head: String = (table.columns.iter())
        .map(|c| {
            format!(
                "<th scope=\"col\"{}>{}</th>",
                class(c.words),
                escaped(&c.name)
            )
        })
        .collect();
    let rows = table.rows.iter().map(|row| {
        let cells = table.columns.iter().zip(row);
        let cells: String = cells
            .map(|(column, cell)| format!("<td{}>{}</td>", class(column.words), render_cell(cell)))
            .collect();
        format!("<tr>{cells}</tr>\n")
    });
    let caption = match table.caption.as_str() {
        "" => String::new(),
        caption => format!("<caption>{}</caption>\n", escaped(caption)),
    };
    format!(
        "<div class=\"wide\">\n<table>\n{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{}\
         </tbody>\n</table>\n</div>\n",
        rows.collect::<String>()
    )
}

fn render_cell(cell: &Cell) -> String {
    let text = escaped(&cell.text);
    let text = match &cell.link {
        Some(anchor) => format!("<a href=\"#{}\">{text}</a>", escaped(anchor)),
        None => text,
    };
    match cell.tone {
        Tone::Plain => text,
        Tone::Good => format!("<span class=\"good\">{text}</span>"),
        Tone::Bad => format!("<span class=\"bad\">{text}</span>"),
        Tone::Faint => format!("<span class=\"faint\">{text}</span>"),
        Tone::Engine => {
            let colour = style::of(&cell.text).colour.name;
            format!("<span class=\"swatch\" style=\"background: var(--{colour})\"></span>{text}")
        }
    }
}

fn escaped(text: &str) -> String {
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
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_place() {
        let nasty = "</td><script>alert('\"&\")</script>";
        let mut document = Document {
            title: nasty.to_owned(),
            ..Document::default()
        };
        document.heading(2, nasty, nasty);
        document.text(nasty);
        document.list(vec![nasty.to_owned()]);
        let mut table = Table::new(nasty, &[nasty]);
        table.row(vec![Cell::from(nasty).link(nasty.to_owned())]);
        table.row(vec![Cell::engine(nasty)]);
        document.table(table);
        document.blocks.push(Block::Contents);
        let html = render(&document);
        assert!(!html.contains("<script") && !html.contains(nasty));
        assert_eq!(html.matches("&lt;script&gt;").count(), 13);
    }

    #[test]
    fn dark_colours_stand_for_those_of_the_plots() {
        let colours = colours();
        assert!(colours.contains("svg [stroke=\"#0072B2\"] { stroke: var(--blue); }"));
        assert!(colours.contains("--blue: #0072B2;") && colours.contains("--blue: #4AA8E8;"));
    }
}
