//! The table `notes`: the sentences of analyses that no other table has.

use crate::api::{Observation, Output};
use hta_base::table;
use hta_base::table::schema::{Batch, Text};

table! {
    /// Sentences of analyses beside their tables, as they are printed.
    pub struct Notes, NotesRow = "notes" by "analysis, position" {
        analysis: Text, "", "name of the analysis";
        position: u32, "", "its place among those of the analysis";
        kind: Text, "",
            "trust: how far the recording carries the analysis; stands_out: what is largest in its tables; note: \
             a line below a view";
        view: Text, "", "title of the view below which it stands; empty: the first, or none";
        cost_ns: Option<i64>, "ns", "what costs so much in a step, where it is a share of the step";
        note: Text, "", "the sentence";
    }
}

/// What kind of sentence a row is.
pub const TRUST: &str = "trust";
pub const STANDS_OUT: &str = "stands_out";
pub const NOTE: &str = "note";

/// The sentences of all analyses.
pub fn table<'a>(outputs: impl Iterator<Item = (&'static str, &'a Output)>) -> Batch {
    let mut outputs: Vec<(&'static str, &Output)> = outputs.collect();
    outputs.sort_by_key(|(stem, _)| *stem);
    let mut table = Notes::default();
    for (analysis, output) in outputs {
        let trust = output.trust.lines.iter().map(|line| (TRUST, "", None, line.as_str()));
        let cost = |o: &Observation| o.share_of_step.map(|_| o.cost_ns_per_step);
        let outstanding = output.observations.iter().map(|o| (STANDS_OUT, "", cost(o), o.sentence.as_str()));
        let notes = output.notes.iter().map(|n| (NOTE, n.view, None, n.text.as_str()));
        for (position, (kind, view, cost_ns, note)) in (0..).zip(trust.chain(outstanding).chain(notes)) {
            table.push(NotesRow { analysis, position, kind, view, cost_ns, note });
        }
    }
    table.finish()
}
