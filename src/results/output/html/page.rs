//! Assembles the page: the data as JSON from which no name can break out, embedded in our HTML, style and
//! scripts.

use crate::output::html::against::Against;
use crate::output::html::entries::{PageSource, SectionEntry};
use crate::output::html::grid::{Section, Sections};
use crate::output::html::overview::SetSummary;
use crate::output::html::parts::{PAGE, fill};
use crate::output::html::sections::SECTIONS;
use crate::output::html::texts::{PageTexts, Texts};
use crate::output::html::timeline::Room;
use crate::output::html::trust::PageTrust;
use crate::output::html::{beside, breakdown, overview};
use crate::results::{Results, ResultsError};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::ser::Formatter;
use std::io::{self, BufWriter, Write};

/// An editor that opens a file at a line by a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Editor {
    #[default]
    Vscode,
    Cursor,
    /// No links.
    None,
}

/// Initial settings of the page, which can be changed there.
#[derive(Debug, Clone, Default)]
pub struct PageOptions {
    pub editor: Editor,
    /// Folder that contains relative source paths.
    pub source_root: Option<String>,
}

#[derive(Serialize)]
struct Data<'a> {
    hta_version: &'static str,
    editor: Editor,
    source_root: &'a str,
    set: SetSummary,
    /// The sections in the order of the page, with their words.
    contents: &'static [SectionEntry],
    sections: Sections,
    against: Option<Baseline>,
    texts: &'a [String],
    cut_texts: usize,
}

/// The results with which the page compares.
#[derive(Serialize)]
struct Baseline {
    folder: String,
    set: SetSummary,
    sections: Sections,
}

/// The sections that come with the ranks and with the baseline, and the one with the most names.
const RANKS: &str = "ranks";
const COMPARE: &str = "compare";
const FLAME: &str = "flame";

/// Sections that the page has of the results with which it compares. Of all others it has the figures only,
/// beside its own.
const COMPARED: [&str; 4] = ["findings", "breakdown", "timeline", RANKS];

/// Writes the page of a results folder, with the figures of a baseline where there is one.
///
/// # Errors
/// When the folder is not a results folder, or the page cannot be written.
pub fn write(
    results: &Results,
    against: Option<&Against>,
    options: &PageOptions,
    out: &mut (dyn Write + Send),
) -> Result<(), ResultsError> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let failed = |source| ResultsError::Write { path: "report.html".to_string(), source };
    let (before, after) = PAGE.split_once(DATA).unwrap_or((PAGE, ""));
    // Most bytes of the page precede its data, so they are written while the data is gathered.
    let (gathered, begun) = rayon::join(|| gather_all(results, against), || fill(before, &mut out));
    let (Gathered { set, sections }, against, texts) = gathered?;
    begun.map_err(failed)?;
    let data = Data {
        hta_version: env!("CARGO_PKG_VERSION"),
        editor: options.editor,
        source_root: options.source_root.as_deref().unwrap_or_default(),
        set,
        contents: SECTIONS,
        sections,
        against,
        texts: texts.texts(),
        cut_texts: texts.cut(),
    };
    let written = write_data(&data, &mut out).and_then(|()| fill(after, &mut out));
    written.and_then(|()| out.flush()).map_err(failed)
}

/// The data of the page.
struct Gathered {
    set: SetSummary,
    sections: Sections,
}

/// The data of the page, of the results with which it compares, and the texts of both.
fn gather_all(
    results: &Results,
    against: Option<&Against>,
) -> Result<(Gathered, Option<Baseline>, PageTexts), ResultsError> {
    let mut texts = PageTexts::default();
    let Some(against) = against else {
        return Ok((gather(results, |_| KeptSection::Shown, Room::WHOLE, &mut texts)?, None, texts));
    };
    let mut gathered = gather(results, |_| KeptSection::Shown, Room::FIRST, &mut texts)?;
    let mut own = Texts::default();
    let mut compared = against.section(&mut own)?;
    compared.place_texts(&texts.add(own));
    gathered.sections.push((COMPARE, compared));
    let kept = |name: &str| match (COMPARED.contains(&name), beside::has_keys(name)) {
        (true, _) => KeptSection::Shown,
        (false, true) => KeptSection::Beside,
        (false, false) => KeptSection::Not,
    };
    let Gathered { set, mut sections } = gather(against.base(), kept, Room::SECOND, &mut texts)?;
    beside::add(&mut gathered.sections, &sections, against.apart());
    sections.retain(|(name, _)| COMPARED.contains(name));
    let baseline = Baseline { folder: against.base().folder().display().to_string(), set, sections };
    Ok((gathered, Some(baseline), texts))
}

/// What the page has of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptSection {
    /// All of it.
    Shown,
    /// Figures beside those of another run: its texts are those that the page has already.
    Beside,
    Not,
}

/// Gathers the sections that `kept` selects, and adds the texts of those that are shown to those of the page.
fn gather(
    results: &Results,
    kept: impl Fn(&str) -> KeptSection,
    room: Room,
    shown: &mut PageTexts,
) -> Result<Gathered, ResultsError> {
    let mut of_ranks = Texts::default();
    let (ranks, lanes) =
        rayon::join(|| overview::ranks(results, &mut of_ranks), || breakdown::lanes(results));
    let (mut ranks, mut inventory) = ranks?;
    ranks.set.energy = match overview::energy(results, &ranks.set) {
        Err(ResultsError::Column { .. }) if room == Room::SECOND => None,
        energy => energy?,
    };
    let lanes = match lanes {
        Err(ResultsError::Column { .. }) if room == Room::SECOND => None,
        lanes => lanes?,
    };
    let trust = match PageTrust::read(results, ranks.set.ranks) {
        Err(ResultsError::Column { .. }) if room == Room::SECOND => PageTrust::default(),
        trust => trust?,
    };
    let source = PageSource { results, ranks: &ranks, lanes, trust, room };
    let one = |entry: &'static SectionEntry| {
        let mut texts = Texts::default();
        let section = match entry.made(&source, &mut texts) {
            // A baseline may be older than this program: what it lacks is not compared.
            Err(e @ ResultsError::Column { .. }) if room == Room::SECOND => Section::without(e.to_string()),
            made => made?,
        };
        Ok((entry.id, section, texts))
    };
    let is_made = |of: &&SectionEntry| of.id != RANKS && of.id != COMPARE && kept(of.id) != KeptSection::Not;
    let mut parts: Vec<&SectionEntry> = SECTIONS.iter().filter(is_made).collect();
    // Last, so that its many names are cut before those of other sections where names take much room.
    parts.sort_by_key(|of| of.id == FLAME);
    let mut sections = Vec::with_capacity(parts.len() + 1);
    let made: Vec<Result<(&str, Section, Texts), ResultsError>> =
        parts.into_par_iter().with_max_len(1).map(one).collect();
    inventory.place_texts(&shown.add(of_ranks));
    for made in made {
        let (name, mut section, texts) = made?;
        let places = if kept(name) == KeptSection::Shown { shown.add(texts) } else { shown.find(&texts) };
        section.place_texts(&places);
        sections.push((name, section));
    }
    if let Some(of) = SECTIONS.iter().find(|of| of.id == RANKS) {
        sections.push((of.id, of.completed(inventory, results, &mut Texts::default())?));
    }
    Ok(Gathered { set: ranks.set, sections })
}

/// Placeholder of the data in the page.
const DATA: &str = "{{data}}";

fn write_data(data: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    Ok(data.serialize(&mut serde_json::Serializer::with_formatter(&mut *out, InPage))?)
}

/// Formats JSON without characters that have a meaning in HTML or end a line in JavaScript, so that no name
/// can end the script element.
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
        assert!(page.contains("\n[\"data\"]\n") && page.contains("Plotly"));
        assert!(!page.lines().any(|line| line.trim().starts_with("{{")));
    }
}
