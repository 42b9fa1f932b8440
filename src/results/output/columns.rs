//! Formats text in columns that fit a width.

use crate::output::visible;
use hta_analysis::printed::{PrintedColumn, View};
use hta_base::table::format::CellType;
use hta_base::table::value::Value;
use hta_base::table::view_rows::ViewRows;
use hta_base::wording::counts::wrapped;
use hta_base::wording::names::{clip, marked};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// What stands between columns.
const GAP: &str = "  ";

/// Smallest width of the widest column of texts and of columns of sentences, if they are longer, and (next)
/// of other names, characters. Where a table leaves less, it is printed row by row.
const LEAST_TEXT: usize = 24;
const LEAST_NAME: usize = 14;

/// Number of words from which a text is a sentence, which is broken into lines and never shortened.
const SENTENCE: usize = 5;

/// Formats a view within `width` characters, as [`grid`] does.
pub fn set(view: &View, width: usize) -> String {
    grid(&view.columns, &view.rows, &view.notes, width)
}

/// Formats a declared view within `width` characters, as [`grid`] does.
pub fn set_rows(view: &ViewRows, width: usize) -> String {
    let columns: Vec<PrintedColumn> = view
        .columns
        .iter()
        .map(|c| PrintedColumn { heading: &c.heading, is_number: c.cells != CellType::Text })
        .collect();
    let row = |row: &Vec<Value>| view.columns.iter().zip(row).map(|(c, v)| c.text(v)).collect();
    grid(&columns, &view.rows.iter().map(row).collect::<Vec<_>>(), &view.notes, width)
}

/// A table within `width` characters. Headings are never shortened: they take two lines where one is too
/// wide. Texts get the width that numbers leave: sentences are broken into lines, names are shortened in
/// their middle. What still does not fit is printed row by row, in full.
pub fn grid(columns: &[PrintedColumn], rows: &[Vec<String>], notes: &[String], width: usize) -> String {
    let rows: CellRows = rows.iter().map(|row| row.iter().map(|c| visible::line(c)).collect()).collect();
    let mut out = match FittedColumns::new(columns, &rows, width) {
        Some(layout) => layout.table(columns, &rows),
        None => row_by_row(columns, &rows, width),
    };
    for note in notes {
        for part in wrap(note, width.saturating_sub(2)) {
            out.push_str(&format!("  {part}\n"));
        }
    }
    out
}

type CellRows<'a> = Vec<Vec<Cow<'a, str>>>;

/// The widths of columns, and the lines of their headings.
struct FittedColumns<'a> {
    widths: Vec<usize>,
    /// Upper and lower line; the upper ones are empty if all headings take one line.
    heads: Vec<(&'a str, &'a str)>,
}

impl<'a> FittedColumns<'a> {
    /// `None` if the columns cannot be as wide as they must.
    fn new(columns: &[PrintedColumn<'a>], rows: &CellRows, width: usize) -> Option<Self> {
        let cells: Vec<usize> =
            (0..columns.len()).map(|i| widest(rows.iter().filter_map(|r| r.get(i)))).collect();
        let wide = |heads: &[(&str, &str)]| -> Vec<usize> {
            cells.iter().zip(heads).map(|(n, head)| (*n).max(len(head.0)).max(len(head.1))).collect()
        };
        let one_line: Vec<(&str, &str)> = columns.iter().map(|c| ("", c.heading)).collect();
        let widths = wide(&one_line);
        if total(&widths) <= width {
            return Some(Self { widths, heads: one_line });
        }
        let heads: Vec<(&str, &str)> = columns.iter().map(|c| halves(c.heading)).collect();
        let mut widths = wide(&heads);
        let main = (0..columns.len()).filter(|i| !columns[*i].is_number).max_by_key(|i| cells[*i]);
        let has_sentences = |i: usize| rows.iter().filter_map(|r| r.get(i)).any(|c| is_sentence(c));
        // A bar or a row of marks means nothing when it is shortened.
        let is_picture = |i: usize| rows.iter().filter_map(|r| r.get(i)).all(|c| is_picture(c));
        let least = |i: usize| {
            if is_picture(i) {
                return cells[i].max(len(heads[i].0)).max(len(heads[i].1));
            }
            let is_long = cells[i] > LEAST_TEXT && (Some(i) == main || has_sentences(i));
            let least = if is_long { LEAST_TEXT } else { LEAST_NAME };
            least.max(len(heads[i].0)).max(len(heads[i].1))
        };
        while total(&widths) > width {
            let can_shrink = |i: &usize| !columns[*i].is_number && widths[*i] > least(*i);
            let i = (0..columns.len()).filter(can_shrink).max_by_key(|i| widths[*i])?;
            // No further than the next one in width, so that long texts share what there is.
            let next = (0..columns.len()).filter(|k| *k != i && can_shrink(k)).map(|k| widths[k]).max();
            let over = total(&widths) - width;
            let target =
                next.map_or(0, |n| n.saturating_sub(1)).max(least(i)).max(widths[i].saturating_sub(over));
            widths[i] = target.min(widths[i] - 1);
        }
        Some(Self { widths, heads })
    }

    fn table(&self, columns: &[PrintedColumn], rows: &CellRows) -> String {
        let alike: Vec<BTreeSet<&str>> = (0..columns.len())
            .map(|i| match columns[i].is_number {
                false => alike(rows, i, self.widths[i]),
                true => BTreeSet::new(),
            })
            .collect();
        let mut out = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::new();
            for (i, cell) in cells.enumerate().take(columns.len()) {
                let pad = " ".repeat(self.widths[i].saturating_sub(len(cell)));
                text.push_str(if i > 0 { GAP } else { "" });
                match columns[i].is_number {
                    false => text.push_str(&format!("{cell}{pad}")),
                    true => text.push_str(&format!("{pad}{cell}")),
                }
            }
            out.push_str(text.trim_end());
            out.push('\n');
        };
        if !rows.is_empty() {
            if self.heads.iter().any(|h| !h.0.is_empty()) {
                line(&mut self.heads.iter().map(|h| h.0));
            }
            line(&mut self.heads.iter().map(|h| h.1));
        }
        for row in rows {
            let cells: Vec<Vec<String>> = row
                .iter()
                .enumerate()
                .take(columns.len())
                .map(|(i, cell)| match (len(cell) > self.widths[i], is_sentence(cell)) {
                    (false, _) => vec![cell.to_string()],
                    (true, true) => broken(cell, self.widths[i]),
                    (true, false) if alike[i].contains(cell.as_ref()) => vec![marked(cell, self.widths[i])],
                    (true, false) => vec![clip(cell, self.widths[i])],
                })
                .collect();
            for k in 0..cells.iter().map(Vec::len).max().unwrap_or(1) {
                line(&mut cells.iter().map(|c| c.get(k).map_or("", String::as_str)));
            }
        }
        out
    }
}

/// Each row as lines of heading and cell; rows are apart by an empty line.
fn row_by_row(columns: &[PrintedColumn], rows: &CellRows, width: usize) -> String {
    let head = widest(columns.iter().map(|c| &c.heading)).min(width / 2);
    let room = width.saturating_sub(head + GAP.len());
    let mut out = String::new();
    for (n, row) in rows.iter().enumerate() {
        out.push_str(if n > 0 { "\n" } else { "" });
        for (PrintedColumn { heading: name, .. }, cell) in columns.iter().zip(row) {
            let lines = if len(cell) > room { broken(cell, room) } else { vec![cell.to_string()] };
            for (k, line) in lines.iter().enumerate() {
                let name = if k == 0 { name } else { "" };
                let pad = " ".repeat(head.saturating_sub(len(name)));
                out.push_str(format!("{name}{pad}{GAP}{line}").trim_end());
                out.push('\n');
            }
        }
    }
    out
}

/// A text in lines of at most `width` characters: between words, and inside words that are longer.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut out = Vec::new();
    for line in wrapped(text.split_whitespace(), width) {
        let chars: Vec<char> = line.chars().collect();
        out.extend(chars.chunks(width.max(1)).map(|part| part.iter().collect::<String>()));
    }
    out
}

/// Whether a text is read word by word; names of kernels with blanks are not.
fn is_sentence(text: &str) -> bool {
    let first = text.split(' ').next().unwrap_or_default();
    text.split(' ').count() >= SENTENCE
        && first != "void"
        && first.chars().all(|c| c.is_alphanumeric() || "-.,:'`\"%".contains(c))
        && !first.contains("::")
}

/// Whether a cell is drawn with marks.
fn is_picture(text: &str) -> bool {
    !text.chars().any(char::is_alphanumeric)
}

/// Divides a heading into two lines that are as short as possible; a single word goes to the second line.
fn halves(head: &str) -> (&str, &str) {
    let longer = |at: usize| at.max(head.len() - at - 1);
    let cut = head.match_indices(' ').map(|(at, _)| at).min_by_key(|at| longer(*at));
    cut.map_or(("", head), |at| (&head[..at], &head[at + 1..]))
}

fn len(text: &str) -> usize {
    text.chars().count()
}

fn widest<T: AsRef<str>>(texts: impl Iterator<Item = T>) -> usize {
    texts.map(|t| len(t.as_ref())).max().unwrap_or(0)
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
}

/// Texts of a column that would look the same as another text of the column after shortening.
fn alike<'a>(rows: &'a CellRows, column: usize, width: usize) -> BTreeSet<&'a str> {
    let cells: BTreeSet<&str> = rows.iter().filter_map(|r| r.get(column)).map(AsRef::as_ref).collect();
    let mut by_cut: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for cell in cells.into_iter().filter(|c| len(c) > width) {
        by_cut.entry(clip(cell, width)).or_default().push(cell);
    }
    by_cut.into_values().filter(|same| same.len() > 1).flatten().collect()
}

/// A text behind a mark, in lines of at most `width` characters; further lines are indented by the width of
/// the mark.
pub fn hanging(out: &mut String, mark: &str, text: &str, width: usize) {
    let indent = mark.chars().count();
    for (i, line) in wrap(text, width.saturating_sub(indent)).iter().enumerate() {
        let front = if i == 0 { mark } else { "" };
        out.push_str(&format!("{front:<indent$}{line}\n"));
    }
}

/// Breaks text at blanks into lines of at most `width` characters, unless a word is longer.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    wrapped(text.split_whitespace().map(visible::line), width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hta_analysis::printed::{number, text};

    #[test]
    fn columns_fit_the_width_and_names_keep_both_ends() {
        let view = View {
            title: String::new(),
            columns: vec![text("kernel"), number("sum")],
            rows: vec![vec!["a".repeat(50) + &"z".repeat(50), "12 ms".to_string()]],
            notes: vec!["word ".repeat(30)],
        };
        let text = set(&view, 40);
        assert!(text.lines().all(|l| l.chars().count() <= 40), "{text}");
        assert!(
            text.lines()
                .nth(1)
                .is_some_and(|l| l.starts_with("aaa") && l.contains("...") && l.contains("zz  12 ms"))
        );
    }

    #[test]
    fn names_that_would_be_cut_to_one_text_stay_apart() {
        let name = |middle: &str| {
            format!("sm90_xmma_gemm_f32f32_{}{middle}{}_cublas", "t".repeat(40), "w".repeat(40))
        };
        let view = View {
            title: String::new(),
            columns: vec![text("kernel"), number("sum")],
            rows: ["64x64", "128x64", "64x64"].iter().map(|m| vec![name(m), "1 ms".to_string()]).collect(),
            notes: Vec::new(),
        };
        let text = set(&view, 50);
        let rows: Vec<&str> = text.lines().skip(1).collect();
        assert!(rows[0] != rows[1] && rows[0] == rows[2], "{text}");
        assert!(rows.iter().all(|r| r.chars().count() <= 50 && r.contains('#')), "{text}");
    }

    #[test]
    fn headings_take_two_lines_before_anything_is_shortened() {
        assert_eq!(halves("bus bw GB/s"), ("bus bw", "GB/s"));
        assert_eq!(halves("rank"), ("", "rank"));
        let columns = [text("kernel"), number("median duration")];
        let rows = [vec!["sgemm".to_string(), "12 ms".to_string()]];
        assert_eq!(grid(&columns, &rows, &[], 24), "kernel  median duration\nsgemm             12 ms\n");
        assert_eq!(grid(&columns, &rows, &[], 20), "          median\nkernel  duration\nsgemm      12 ms\n");
    }

    #[test]
    fn sentences_are_broken_into_lines() {
        let columns = [text("cause"), number("gain")];
        let rows = [vec!["Rank 3 waits for the data loader".to_string(), "5 ms".to_string()]];
        let text = grid(&columns, &rows, &[], 30);
        assert_eq!(text, "cause                     gain\nRank 3 waits for the      5 ms\ndata loader\n");
    }

    #[test]
    fn what_is_too_wide_stands_row_by_row_in_full() {
        let columns = [text("cause"), number("gain"), text("what to do")];
        let row = ["Rank 3 waits for the data loader", "5 ms", "load in the background with workers"];
        let text = grid(&columns, &[row.map(str::to_string).to_vec()], &[], 40);
        assert_eq!(
            text,
            "cause       Rank 3 waits for the data\n            loader\ngain        5 ms\n\
             what to do  load in the background with\n            workers\n"
        );
    }

    #[test]
    fn no_heading_is_shortened_at_any_width() {
        let columns = [text("communication kernel"), number("exposed share %")];
        let rows = [vec!["ncclDevKernel_AllReduce_Sum_f32_RING_LL".to_string(), "12.5 %".to_string()]];
        for width in 20..100 {
            let text = grid(&columns, &rows, &[], width);
            for word in ["communication", "kernel", "exposed", "share %", "12.5 %"] {
                assert!(text.contains(word), "{width}: {text}");
            }
        }
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let name = "a\u{1b}[31mb\n".to_string();
        let text = grid(&[text("name")], &[vec![name.clone()]], &[name], 40);
        assert_eq!(text, "name\na\\u{1b}[31mb\\n\n  a\\u{1b}[31mb\n");
    }
}
