//! Reads the figures of what causes say back from the rows that they name as evidence: those of the words of
//! a piece of evidence from its rows, those of sentence and detail from all rows of the cause, and from its
//! own row in `findings`.

mod condition;
mod figure;
mod job;
mod readable;

use crate::run::{Answer, Record};
use condition::Condition;
use figure::{Figure, figures};
use job::JobFacts;
use readable::Readable;
use std::collections::BTreeMap;

/// Figures that no row has, by the kind of the cause and the words around them (without figures), each with
/// the reason.
const NOT_IN_ROWS: &[(&str, &str, &str)] = &[
    ("copy_small", "of less than # KiB", "the limit of the rule"),
    ("kernel_small", "shorter than # us", "the limit of the rule"),
    ("host_pause", "of # ms and more", "the limit of the rule"),
    ("host_lock", "of # ms and more", "the limit of the rule"),
    ("kernel_", "become # times as fast", "what the rule assumes where no peak is known"),
    (
        "link_slow",
        "groups transfers #",
        "beyond the level of a class, which `fabric_groups` has as a factor (z)",
    ),
    ("link_slow", "from # steps", "the limit of the rule"),
    ("pipeline_bubble", "takes # times", "of sums of chunks by stage and kind over all steps"),
    ("transfer_bandwidth", "at # instead", "the median rate of the calls of a group and size"),
    ("transfer_bandwidth", "instead of # GB/s", "the median rate of groups like it"),
    ("expert_imbalance", "would save #", "a replay with equal expert times"),
    (
        "expert_imbalance",
        "others wait #",
        "waits in combines times the share of each layer that is due to tokens",
    ),
    ("straggler", "Its experts take # x", "time of the experts for each token, median over passes"),
    ("straggler", "kernels beside", "of kernels beside copies or collectives, whose table is not written"),
    ("straggler", "slow, #", "the same as of their number"),
    ("cold_start", "takes #", "the length of the first steps, of which the rows have what they idle"),
    ("cold_start", "others #", "the median length of the other steps"),
    ("host_pause", "rank waits #", "waits of all ranks, also of those on which nothing pauses"),
    ("step_outlier", "kernels beside", "the same as of a straggler"),
    ("step_outlier", "slow, #", "the same"),
    ("step_outlier", "without: #", "the same"),
    ("", "; frees #", "the gain of the cause beyond what it owns"),
    ("", "on the rank with", "what the device with most owns in each step"),
    ("memory_leak", "in about # steps", "what is left of the device over the growth"),
    ("role_wait", "in which # of", "engines that work in one tail"),
    ("throttled", "#", "clocks and kernel lengths over busy time, weighted by how long each sample stands"),
    ("transfer_", "NVLink # of peak", "samples weighted by the exposed transfers inside them"),
    ("comm_", "NVLink # of peak", "samples weighted by the exposed transfers inside them"),
    ("link_slow", "NVLink # of peak", "samples weighted by the exposed transfers inside them"),
];

/// What was read.
#[derive(Default)]
pub struct Read {
    /// Figures that stand in the rows.
    pub figures: usize,
    /// How many of them would also be found if they were others.
    pub found_if_changed: usize,
    /// What is wrong: conditions that select nothing, and figures that no row has.
    pub wrong: Vec<String>,
}

impl Read {
    pub fn add(&mut self, other: Read) {
        self.figures += other.figures;
        self.found_if_changed += other.found_if_changed;
        self.wrong.extend(other.wrong);
    }

    fn text(&mut self, (what, kind): (&str, &str), text: &str, rows: &Readable) {
        for figure in figures(text) {
            if rows.has(&figure) {
                self.figures += 1;
                self.found_if_changed += usize::from(rows.has(&figure.changed()));
            } else if !is_not_in_rows(kind, &figure) {
                self.wrong.push(format!(
                    "{what}: {kind}: `{}` of `{text}` is in no row of its evidence",
                    figure.shown()
                ));
            }
        }
    }
}

fn is_not_in_rows(kind: &str, figure: &Figure) -> bool {
    NOT_IN_ROWS.iter().any(|(of, near, _)| kind.starts_with(of) && figure.around.contains(near))
}

/// Checks the evidence of all causes of an answer.
pub fn read(answer: &Answer, what: &str) -> Read {
    let mut out = Read::default();
    let job = JobFacts::of(answer);
    let mut evidence: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    for row in answer.rows("finding_evidence") {
        evidence.entry(row.text("finding_id").to_string()).or_default().push(row);
    }
    let findings = answer.rows("findings");
    for finding in &findings {
        let (kind, id) = (finding.text("kind"), finding.text("finding_id"));
        // Keys that differ in digits only have one name, and then the rows of both.
        if findings.iter().filter(|f| f.text("finding_id") == id).count() > 1 {
            continue;
        }
        let own = Readable::of_finding(finding, &job);
        let mut all = own.clone();
        let pieces = evidence.get(id).map_or(&[][..], Vec::as_slice);
        for piece in pieces {
            let (table, filter) = (piece.text("evidence_table"), piece.text("filter"));
            let condition = match Condition::read(filter) {
                Ok(condition) => condition,
                Err(why) => {
                    out.wrong.push(format!("{what}: {kind}: `{filter}` of {table}: {why}"));
                    continue;
                }
            };
            match Readable::of_rows(answer, table, &condition, &job) {
                Some(mut rows) => {
                    all.add(&rows);
                    rows.add(&own);
                    out.text((what, kind), &job.own_words(piece.text("words")), &rows);
                }
                None => out.wrong.push(format!("{what}: {kind}: no row of {table} WHERE {filter}")),
            }
        }
        for column in ["sentence", "detail"] {
            out.text((what, kind), &job.own_words(finding.text(column)), &all);
        }
    }
    out
}
