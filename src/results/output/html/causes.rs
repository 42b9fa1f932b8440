//! The first section: the verdict, and the causes with what they own, their evidence and what to do.

use crate::output::html::grid::{Cell, CellType, Grid, Heading, Section};
use crate::output::html::overview::{self, PageRanks};
use crate::output::html::places;
use crate::output::html::texts::Texts;
use crate::output::html::trust::PageTrust;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::diagnosis::{FindingEvidence, Findings, VerdictTable};
use hta_base::table::schema::Text;
use std::collections::BTreeMap;

/// Columns of the grid `finding_evidence`.
const EVIDENCE: &[Heading] = &[
    ("finding", "cause", CellType::Id, "row of the cause"),
    ("evidence_table", "table", CellType::Text, "table that supports it"),
    ("words", "number", CellType::Text, "what it says"),
    ("filter", "rows", CellType::Text, "condition for its rows, in SQL"),
];

/// Columns of the grid `findings`.
const CAUSES: &[Heading] = &[
    ("sentence", "cause", CellType::Text, "the cause in words"),
    ("action", "what to do", CellType::Text, "one action that fixes it"),
    ("detail", "details", CellType::Text, "the numbers that show it, in words"),
    ("place", "where", CellType::Text, "function of the user's code, with file and line, and the module"),
    ("recoverable_ns", "saves", CellType::Ns, "what fixing only this cause saves, over all steps"),
    ("recoverable_pct", "of the time", CellType::Ratio, "the same as a share of the job's time"),
    ("owned_ns", "owned", CellType::Ns, "lost time of all devices that it owns"),
    ("share_pct", "of all devices", CellType::Ratio, "owned time as a share of the time of all devices"),
    ("rank_label", "ranks", CellType::Text, "its ranks"),
    ("step_labels", "steps", CellType::Text, "its steps; none: all"),
    ("certainty", "certainty", CellType::Text, "sure, likely, at most (the gain is a bound) or withheld"),
    ("reason", "why", CellType::Text, "what of the recording makes it less than sure"),
    ("ranks", "rank numbers", CellType::Text, "its ranks, by number"),
    ("kind", "kind", CellType::Text, "`hta explain diagnosis` defines it"),
    ("id", "name", CellType::Text, "stable name: the same in every run that has the cause"),
];

/// Largest number of causes shown.
const MOST: usize = 200;

columns! {
    Told of VerdictTable { text: Text }
}

columns! {
    Found of Findings {
        finding_id: Text, kind: Text, ranks: Text, rank_label: Text, step_labels: Text, recoverable_ns: i64,
        recoverable_pct: Option<f64>, owned_ns: i64, share_pct: Option<f64>, certainty: Text,
        reason: Option<Text>, sentence: Text, action: Text, detail: Text,
        place: Text,
    }
}

columns! {
    Supports of FindingEvidence { finding_id: Text, evidence_table: Text, filter: Text, words: Text }
}

/// # Errors
/// When a table is damaged.
pub(crate) fn section(
    results: &Results,
    ranks: &PageRanks,
    trust: &PageTrust,
    texts: &mut Texts,
) -> Result<Section, ResultsError> {
    let mut notes = trust.notes();
    notes.extend(overview::record_note(results, ranks)?);
    let mut supports: BTreeMap<String, Vec<[String; 3]>> = BTreeMap::new();
    results.read::<Supports>(|r| {
        let row = [r.evidence_table, r.words, r.filter].map(str::to_string);
        supports.entry(r.finding_id.to_string()).or_default().push(row);
    })?;
    let mut evidence = Grid::new("finding_evidence", EVIDENCE);
    let mut verdict =
        Grid::new("verdict", &[("text", "verdict", CellType::Text, "the diagnosis in two lines")]);
    let is_told = results.read::<Told>(|r| verdict.push([texts.whole(r.text)]))?;
    let mut grid = Grid::new("findings", CAUSES);
    let mut left = 0;
    let there = results.read::<Found>(|r| {
        if r.kind == "not_explained" {
            return;
        }
        if grid.len() == MOST {
            left += 1;
            return;
        }
        let text = |of: &str, texts: &mut Texts| if of.is_empty() { Cell::Nothing } else { texts.whole(of) };
        let share = |pct: Option<f64>| pct.map(|p| p / 100.0).into();
        for [table, words, filter] in supports.get(r.finding_id).into_iter().flatten() {
            evidence.push([grid.len().into(), texts.cell(table), texts.whole(words), texts.whole(filter)]);
        }
        grid.push([
            texts.whole(r.sentence),
            text(r.action, texts),
            text(r.detail, texts),
            text(r.place, texts),
            r.recoverable_ns.into(),
            share(r.recoverable_pct),
            r.owned_ns.into(),
            share(r.share_pct),
            text(r.rank_label, texts),
            text(r.step_labels, texts),
            texts.cell(r.certainty),
            texts.of(r.reason),
            text(r.ranks, texts),
            texts.cell(r.kind),
            texts.cell(r.finding_id),
        ]);
    })?;
    if !there {
        let mut section = Section::without("No diagnosis: a run with --compat or --only.");
        section.notes.extend(notes);
        return Ok(section);
    }
    grid.leave_out(left, Vec::new());
    let mut section = Section::default().with("findings", grid).with("evidence", evidence);
    if let Some(map) = places::map(results, texts)? {
        section = section.with("places", map);
    }
    if is_told {
        section = section.with("verdict", verdict);
    }
    section.notes.extend(notes);
    Ok(section)
}
