//! The table `notes`: the sentences of a run and of its analyses that no other table has.

use crate::api::{Output, Partial};
use crate::inventory::{edge_notes, processes_note};
use crate::verdict::JobVerdict;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};

table! {
    /// Sentences of a run and of its analyses beside their tables, as they are printed.
    pub struct Notes, NotesRow = "notes" by "analysis, position" {
        analysis: Text, "", "name of the analysis; empty: of the run";
        position: u32, "", "its place among those of the analysis";
        kind: Text, "",
            "trust: how far the recording carries the analysis; stands_out: its answer, above its views; \
             note: a line below a view; of the diagnosis: headline, energy, recorded or remark";
        view: Text, "", "title of the view below which it stands; empty: the first, or none";
        note: Text, "", "the sentence";
    }
}

/// What kind of sentence a row is.
pub const TRUST: &str = "trust";
pub const STANDS_OUT: &str = "stands_out";
pub const NOTE: &str = "note";
/// The same of the diagnosis: what stands in the head of the report, and behind the causes.
pub const HEADLINE: &str = "headline";
pub const ENERGY: &str = "energy";
pub const RECORDED: &str = "recorded";
pub const REMARK: &str = "remark";

/// The sentences of a run, from its inventory, and of all analyses.
pub fn table<'a>(inventory: &[Partial], outputs: impl Iterator<Item = (&'static str, &'a Output)>) -> Batch {
    let mut outputs: Vec<(&'static str, &Output)> = outputs.collect();
    outputs.sort_by_key(|(stem, _)| *stem);
    let mut table = Notes::default();
    let of_run = [processes_note(inventory), edge_notes::note(inventory)];
    for (position, note) in (0..).zip(of_run.iter().flatten()) {
        table.push(NotesRow { analysis: "", position, kind: NOTE, view: "", note });
    }
    for (analysis, output) in outputs {
        let trust = output.trust.lines.iter().map(|line| (TRUST, "", line.as_str()));
        let notes = output.notes.iter().map(|n| (NOTE, n.view, n.text.as_str()));
        let answers = output.sentences.iter().map(|sentence| (STANDS_OUT, "", sentence.as_str()));
        let all = trust.chain(answers).chain(notes).chain(output.verdict.iter().flat_map(of_verdict));
        for (position, (kind, view, note)) in (0..).zip(all) {
            table.push(NotesRow { analysis, position, kind, view, note });
        }
    }
    table.finish()
}

/// What the diagnosis says beside its findings.
fn of_verdict(told: &JobVerdict) -> impl Iterator<Item = (&'static str, &'static str, &str)> {
    let head = [
        (HEADLINE, told.headline.as_deref()),
        (ENERGY, told.energy.as_deref()),
        (RECORDED, Some(told.recorded.as_str()).filter(|text| !text.is_empty())),
    ];
    let head = head.into_iter().filter_map(|(kind, text)| Some((kind, text?)));
    let all = head.chain(told.notes.iter().map(|note| (REMARK, note.as_str())));
    all.map(|(kind, text)| (kind, "", text))
}
