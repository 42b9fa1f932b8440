//! The page: data as JSON that no name can break out of, between our own HTML, style and scripts.

use super::grid::{Section, Texts};
use super::overview::{Found, Set};
use super::results::{Results, ResultsError};
use super::{across, breakdown, idle, names, overview, time};
use serde::Serialize;
use serde_json::ser::Formatter;
use std::io::{self, Write};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const PLOTLY: &str = include_str!("plotly/plotly-cartesian.min.js");
/// In the order in which they run.
const SCRIPTS: [&str; 7] = [
    include_str!("script/format.js"),
    include_str!("script/source.js"),
    include_str!("script/table.js"),
    include_str!("script/chart.js"),
    include_str!("script/section.js"),
    include_str!("script/sections.js"),
    include_str!("script/start.js"),
];

/// An editor that opens a file at a line when its link is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Editor {
    #[default]
    Vscode,
    Cursor,
    /// File and line stay plain text.
    None,
}

/// What a reader finds set when the page opens; there it can be changed.
#[derive(Debug, Clone, Default)]
pub struct PageOptions {
    pub editor: Editor,
    /// Folder that relative source files are below.
    pub source_root: Option<String>,
}

#[derive(Serialize)]
struct Data<'a> {
    hta_version: &'static str,
    editor: Editor,
    source_root: &'a str,
    set: Set,
    sections: Sections,
    texts: &'a [String],
    cut_texts: usize,
}

/// Writes the page of a results folder. Without findings given, they are those of its `summary.json`.
///
/// # Errors
/// When the folder is none of ours, or the page cannot be written.
pub fn write(
    results: &Results,
    found: Option<Vec<Found>>,
    options: &PageOptions,
    out: &mut (impl Write + Send),
) -> Result<(), ResultsError> {
    let failed = |source| ResultsError::Write { path: "report.html".to_string(), source };
    let (before, after) = PAGE.split_once(DATA).unwrap_or((PAGE, ""));
    let mut texts = Texts::default();
    // most of the page's bytes stand before its data
    let (gathered, begun) = rayon::join(|| gather(results, found, &mut texts), || fill(before, out));
    let (set, sections) = gathered?;
    begun.map_err(failed)?;
    let data = Data {
        hta_version: env!("CARGO_PKG_VERSION"),
        editor: options.editor,
        source_root: options.source_root.as_deref().unwrap_or_default(),
        set,
        sections,
        texts: texts.shown(),
        cut_texts: texts.cut(),
    };
    write_data(&data, out).and_then(|()| fill(after, out)).map_err(failed)
}

type Sections = Vec<(&'static str, Section)>;

/// What the page says of the run, and its sections in order.
fn gather(results: &Results, found: Option<Vec<Found>>, texts: &mut Texts) -> Result<(Set, Sections), ResultsError> {
    let found = found.map_or_else(|| overview::findings(results), Ok)?;
    let (ranks, inventory) = overview::ranks(results, texts)?;
    let mut sections =
        vec![("findings", overview::findings_section(&found, texts)), ("health", overview::health(results, texts)?)];
    let lanes = breakdown::lanes(results)?;
    let no_windows = || {
        Section::without(
            "The table `temporal_breakdown` is empty or not among these results: nothing ran, or a run with --compat or --only.",
        )
    };
    let count = ranks.set.ranks;
    let (time_breakdown, idle) = match &lanes {
        Some(l) => (breakdown::section(results, l, texts)?, idle::section(results, l, texts)?),
        None => (no_windows(), no_windows()),
    };
    sections.extend([
        ("breakdown", time_breakdown),
        ("stragglers", across::stragglers(results, count, texts)?),
        ("collectives", across::collectives(results, count, texts)?),
        ("idle", idle),
        ("kernels", names::kernels(results, texts)?),
        ("patterns", names::patterns(results, texts)?),
        ("utilization", time::utilization(results, &ranks, texts)?),
        ("critical-path", time::critical_path(results, lanes.as_ref(), texts)?),
        ("stacks", names::stacks(results, texts)?),
        ("what-if", across::what_if(results, texts)?),
        ("ranks", inventory),
    ]);
    Ok((ranks.set, sections))
}

/// Stands in the page for its data.
const DATA: &str = "{{data}}";

fn write_data(data: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    Ok(data.serialize(&mut serde_json::Serializer::with_formatter(&mut *out, InPage))?)
}

/// Writes a part of the page, with its other places filled; they are lines `{{name}}` too.
fn fill(part: &str, out: &mut impl Write) -> io::Result<()> {
    for line in part.split_inclusive('\n') {
        match line.trim() {
            "{{style}}" => out.write_all(STYLE.as_bytes())?,
            "{{plotly}}" => out.write_all(PLOTLY.as_bytes())?,
            "{{scripts}}" => SCRIPTS.iter().try_for_each(|s| out.write_all(s.as_bytes()))?,
            _ => out.write_all(line.as_bytes())?,
        }
    }
    Ok(())
}

/// JSON without a character that means something to HTML, or ends a line in JavaScript: no name can end the element
/// that it stands in.
struct InPage;

impl Formatter for InPage {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, from) = rest.split_at(at);
            out.write_all(plain.as_bytes())?;
            let mut letters = from.chars();
            if let Some(c) = letters.next() {
                write!(out, "\\u{:04x}", u32::from(c))?;
            }
            rest = letters.as_str();
        }
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_end_the_element_that_the_data_stands_in() {
        let name = "a</script><b>&amp;\u{2028}\\\"";
        let mut out = Vec::new();
        name.serialize(&mut serde_json::Serializer::with_formatter(&mut out, InPage)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains(['<', '>', '&', '\u{2028}']), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), name);
    }

    #[test]
    fn every_place_of_the_page_is_filled() {
        let mut out = Vec::new();
        let (before, after) = PAGE.split_once(DATA).unwrap();
        fill(before, &mut out).unwrap();
        write_data(&["data"], &mut out).unwrap();
        fill(after, &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(page.contains("\n[\"data\"]\n") && page.contains("Plotly") && !page.contains("{{"));
    }

    #[test]
    fn no_script_of_ours_can_end_its_own_element() {
        for script in SCRIPTS.iter().chain([&PLOTLY]) {
            assert!(!script.to_lowercase().contains("</script"));
        }
    }
}
