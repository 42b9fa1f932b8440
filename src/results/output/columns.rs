//! Formats text in columns that fit a width.

use crate::output::visible;
use hta_analysis::api::{Align, View};
use hta_base::wording::counts::wrapped;
use hta_base::wording::names::{clip, marked};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Blanks between columns.
const GAP: usize = 2;

/// Formats a view within `width` characters; the widest left-aligned columns are shortened first.
pub fn set(view: &View, width: usize) -> String {
    grid(&view.columns, &view.rows, &view.notes, width)
}

/// Like [`set`], for columns without a declaration.
pub fn grid(columns: &[(&str, Align)], rows: &[Vec<String>], notes: &[String], width: usize) -> String {
    let rows: Vec<Vec<Cow<str>>> =
        rows.iter().map(|row| row.iter().map(|c| visible::line(c)).collect()).collect();
    let (widths, n) = (widths(columns, &rows, width), columns.len());
    let mut out = String::new();
    let alike: Vec<BTreeSet<&str>> = (0..n)
        .map(|i| if columns[i].1 == Align::Left { alike(&rows, i, widths[i]) } else { BTreeSet::new() })
        .collect();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (i, cell) in cells.enumerate().take(n) {
            if i > 0 {
                text.push_str(&" ".repeat(GAP));
            }
            let cell = match alike[i].contains(cell) {
                true => marked(cell, widths[i]),
                false => clip(cell, widths[i]),
            };
            let pad = " ".repeat(widths[i].saturating_sub(len(&cell)));
            match columns[i].1 {
                Align::Left => text.push_str(&format!("{cell}{pad}")),
                Align::Right => text.push_str(&format!("{pad}{cell}")),
            }
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    if !rows.is_empty() {
        line(&mut columns.iter().map(|c| c.0));
    }
    for row in &rows {
        line(&mut row.iter().map(AsRef::as_ref));
    }
    for note in notes {
        for part in wrap(note, width.saturating_sub(2)) {
            out.push_str(&format!("  {part}\n"));
        }
    }
    out
}

/// Whether [`grid`] fits into `width` without shortening anything but texts.
pub(crate) fn fits(columns: &[(&str, Align)], rows: &[Vec<String>], width: usize) -> bool {
    let widths = widths(columns, rows, width);
    let whole = |i: usize, wide: usize| {
        let cells = rows.iter().filter_map(|r| r.get(i)).filter(|_| columns[i].1 == Align::Right);
        cells.map(|c| len(c)).chain([len(columns[i].0)]).all(|n| n <= wide)
    };
    total(&widths) <= width && widths.iter().enumerate().all(|(i, wide)| whole(i, *wide))
}

fn len(text: &str) -> usize {
    text.chars().count()
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

fn widths<T: AsRef<str>>(columns: &[(&str, Align)], rows: &[Vec<T>], width: usize) -> Vec<usize> {
    let n = columns.len();
    let widest = |i: usize| {
        rows.iter().filter_map(|r| r.get(i)).map(|c| len(c.as_ref())).chain([len(columns[i].0)]).max()
    };
    let mut widths: Vec<usize> = (0..n).map(|i| widest(i).unwrap_or(0)).collect();
    while total(&widths) > width {
        let left = |i: &usize| columns[*i].1 == Align::Left;
        let widest =
            (0..n).filter(left).max_by_key(|i| widths[*i]).or_else(|| (0..n).max_by_key(|i| widths[*i]));
        let Some(i) = widest.filter(|i| widths[*i] > 8) else { break };
        widths[i] = widths[i].saturating_sub(total(&widths) - width).max(8);
    }
    widths
}

/// Texts of a column that would look the same as another text of the column after shortening.
fn alike<'a>(rows: &'a [Vec<Cow<str>>], column: usize, width: usize) -> BTreeSet<&'a str> {
    let cells: BTreeSet<&str> = rows.iter().filter_map(|r| r.get(column)).map(AsRef::as_ref).collect();
    let mut by_cut: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for cell in cells.into_iter().filter(|c| len(c) > width) {
        by_cut.entry(clip(cell, width)).or_default().push(cell);
    }
    by_cut.into_values().filter(|same| same.len() > 1).flatten().collect()
}

/// Breaks text at blanks into lines of at most `width` characters, unless a word is longer.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    wrapped(text.split_whitespace().map(visible::line), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_the_width_and_names_keep_both_ends() {
        let view = View {
            title: String::new(),
            columns: vec![("kernel", Align::Left), ("sum", Align::Right)],
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
            columns: vec![("kernel", Align::Left), ("sum", Align::Right)],
            rows: ["64x64", "128x64", "64x64"].iter().map(|m| vec![name(m), "1 ms".to_string()]).collect(),
            notes: Vec::new(),
        };
        let text = set(&view, 50);
        let rows: Vec<&str> = text.lines().skip(1).collect();
        assert!(rows[0] != rows[1] && rows[0] == rows[2], "{text}");
        assert!(rows.iter().all(|r| r.chars().count() <= 50 && r.contains('#')), "{text}");
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let name = "a\u{1b}[31mb\n".to_string();
        let text = grid(&[("name", Align::Left)], &[vec![name.clone()]], &[name], 40);
        assert_eq!(text, "name\na\\u{1b}[31mb\\n\n  a\\u{1b}[31mb\n");
    }
}
