//! The tables of the diagnosis.

use crate::CauseKind;
use crate::account::TimePart;
use crate::cause::{Cause, finding_id};
use crate::diagnose::Diagnosis;
use crate::verdict::{is_listed, saved};
use hta_analysis::verdict::JobVerdict;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, percent};
use hta_job::Job;
use hta_job::delay::StepKey;

table! {
    /// Causes of lost time and of trouble with memory, the most important first, and what no cause owns. A
    /// cause of lost time is a row from 1 % of the job's time on.
    pub struct Findings, FindingRow = "findings" by "position" key "finding_id" {
        position: u32, "", "place in the order of importance, from 1";
        finding_id: Text, "", "stable name of the cause: the same in every run that has it", "name";
        kind: Text, "", "kind of cause, as in `hta explain diagnosis`";
        key: Text, "", "what it is about: a kernel, frame, call; empty if the kind says all";
        scope: Text, "", "all, local_rank, host or rank";
        ranks: Text, "", "its ranks, separated by commas", "rank numbers";
        rank_label: Text, "", "its ranks in words", "ranks";
        step_labels: Text, "", "its steps, separated by commas; empty: all", "steps";
        recoverable_ns: i64, "ns", "what fixing only this cause saves, over all steps", "saves";
        recoverable_pct: Option<f64>, "%", "the same, of the job's time", "of the time";
        basis: Text, "", "replay, bound, roofline or assumed: how the gain was found";
        owned_ns: i64, "ns", "lost time of all devices that it owns";
        compute_ns: i64, "ns", "compute time of all devices that it owns (causes in the mix of kernels)";
        share_pct: Option<f64>, "%", "owned time, of the time of all devices", "of all devices";
        bytes: Option<i64>, "bytes",
            "memory that a cause about memory is about, on its worst rank: the largest failed request, \
             growth of the median step, the peak, or what is unused; null for causes of time";
        certainty: Text, "",
            "sure: follows from recorded times; likely: depends on an interpretation; at most: the gain is a \
             bound; withheld: the recording does not support it";
        reason: Option<Text>, "", "what of the recording makes it less than sure", "why";
        p_value: Option<f64>, "", "of the test for stragglers, and for slow places of the fabric";
        sentence: Text, "", "the cause in words", "cause";
        detail: Text, "", "the numbers that show it, in words; empty if the sentence has them", "details";
        place: Text, "",
            "function of the user's code, with file and line, and the module; empty if not recorded",
            "where";
        action: Text, "", "one action that fixes it", "what to do";
        saves: Text, "", "what fixing it saves in a step, in words; empty if it saves no time";
        is_once: bool, "", "only a later recording saves it, not the job itself";
        is_listed: bool, "", "it is large enough to be told";
        is_told: bool, "", "the report tells it: of causes of lost time only the most important";
    }
}

table! {
    /// The diagnosis in two sentences.
    pub struct VerdictTable, VerdictRow = "verdict" by "line" {
        line: u32, "",
            "1: what costs most, and what fixing it saves; 2: the numbers that show it, and the place";
        text: Text, "", "the sentence";
    }
}

table! {
    /// Numbers that support a cause, and the rows of other tables in which they stand.
    pub struct FindingEvidence, FindingEvidenceRow = "finding_evidence" by "finding_id, position" {
        finding_id: Text, "", "the cause, as in findings";
        position: u32, "", "from 1";
        evidence_table: Text, "", "table";
        filter: Text, "", "condition for its rows, in SQL";
        words: Text, "", "the number, in words";
    }
}

table! {
    /// What a cause owns by name: of a cause on the host what the host does meanwhile, of copies the copy,
    /// of communication the kind of call. Names beyond the largest of a kind, step and device are one
    /// without name.
    pub struct FindingNames, FindingNameRow = "finding_names" by "finding_id, name, detail, rank" {
        finding_id: Text, "", "the cause, as in findings";
        name: Text, "", "event, copy or kind of call; empty: the rest";
        detail: Text, "", "the Python frame around it, or the group of the call; empty if not recorded";
        rank;
        time_ns: i64, "ns", "lost time under this name, over all steps, without what others wait";
        count: u64, "", "gaps, copies or pieces of calls";
    }
}

table! {
    /// The time of every device and step by part and owner. Over owners and parts, ns adds up to the step's
    /// time; over the parts but compute, to what is lost.
    pub struct TimeAccount, TimeAccountRow = "time_account" by "rank, device, step, part, cause" {
        rank; device;
        step: Option<u32>, "", "index of the step in time, for steps without a number";
        step_label;
        part: Text, "",
            "compute, fused, waiting, transfer, unmatched, copies, idle, or finished_early: another device needs \
             longer for the step";
        cause: Option<Text>, "", "kind of the owner, or not_explained; null: compute time";
        finding_id: Option<Text>, "", "the owner, as in findings; null if it is not a finding";
        time_ns: i64, "ns", "time";
    }
}

pub(super) fn lines(told: &JobVerdict) -> Batch {
    let mut table = VerdictTable::default();
    for (line, text) in (1u32..).zip(&told.lines).filter(|(_, text)| !text.is_empty()) {
        table.push(VerdictRow { line, text });
    }
    table.finish()
}

pub(super) fn finding_tables(found: &Diagnosis, told: &JobVerdict) -> (Batch, Batch) {
    let (mut table, mut evidence) = (Findings::default(), FindingEvidence::default());
    let account = &found.account;
    for (position, c) in (1u32..).zip(&found.causes) {
        let id = finding_id(c);
        let list: Vec<String> = c.ranks.iter().map(u32::to_string).collect();
        table.push(FindingRow {
            position,
            finding_id: &id,
            kind: c.kind.name(),
            key: &c.key,
            scope: c.scope.name(),
            ranks: &list.join(","),
            rank_label: &c.rank_label,
            step_labels: &c.steps.join(","),
            recoverable_ns: c.gain,
            recoverable_pct: percent(c.gain, account.length),
            basis: c.basis.name(),
            owned_ns: c.owned_sum(),
            compute_ns: c.compute,
            share_pct: percent(c.owned_sum(), account.all()),
            bytes: c.bytes,
            certainty: c.certainty().name(),
            p_value: c.p_value,
            reason: c.trust.reason(),
            sentence: &c.words.what,
            detail: &c.words.why,
            place: &c.place,
            action: &c.words.action,
            saves: &saved(c, account, &found.trust),
            is_once: c.is_once,
            is_listed: is_listed(c, account),
            is_told: told.causes.iter().any(|t| t.finding_id == id),
        });
        for (position, e) in (1u32..).zip(&c.evidence) {
            evidence.push(FindingEvidenceRow {
                finding_id: &id,
                position,
                evidence_table: e.table,
                filter: &e.filter,
                words: &e.words,
            });
        }
    }
    if !account.steps.is_empty() {
        table.push(not_explained(found));
    }
    (table.finish(), evidence.finish())
}

pub(super) fn finding_names(found: &Diagnosis, job: &Job) -> Batch {
    let mut table = FindingNames::default();
    for cause in &found.causes {
        let id = finding_id(cause);
        for ((name, detail, part), (time_ns, count)) in &cause.names {
            let rank = job.parts[*part as usize].rank;
            table.push(FindingNameRow {
                finding_id: &id,
                name,
                detail,
                rank,
                time_ns: *time_ns,
                count: *count,
            });
        }
    }
    table.finish()
}

/// The row of what no cause owns.
fn not_explained(found: &Diagnosis) -> FindingRow<'static> {
    let account = &found.account;
    let lost = account.all() - account.sum(TimePart::Compute) - account.sum(TimePart::Fused);
    let owned: Ns = found.causes.iter().filter(|c| c.kind.kernels().is_none()).map(Cause::owned_sum).sum();
    FindingRow {
        position: found.causes.len() as u32 + 1,
        finding_id: CauseKind::NotExplained.name(),
        kind: CauseKind::NotExplained.name(),
        key: "",
        scope: "all",
        ranks: "",
        rank_label: "",
        step_labels: "",
        recoverable_ns: 0,
        recoverable_pct: None,
        basis: "bound",
        owned_ns: lost - owned,
        compute_ns: 0,
        share_pct: percent(lost - owned, account.all()),
        bytes: None,
        certainty: CauseKind::NotExplained.rule().certainty.name(),
        p_value: None,
        reason: None,
        sentence: "Lost time that no rule assigns to a cause",
        detail: "",
        place: "",
        action: "",
        saves: "",
        is_once: false,
        is_listed: false,
        is_told: false,
    }
}

pub(super) fn time_account(found: &Diagnosis, job: &Job) -> Batch {
    let mut table = TimeAccount::default();
    let ids: Vec<String> = found.causes.iter().map(finding_id).collect();
    // Rank, device, step and part; the cause that owns it.
    type Piece = ((u32, Option<i64>, usize, TimePart), Option<usize>, Ns);
    let mut rows: Vec<Piece> = Vec::new();
    for (s, (part, device), cell) in found.account.cells() {
        let rank = job.parts[part as usize].rank;
        for time_part in TimePart::ALL {
            let all = time_part.of(&cell.parts);
            let place = (rank, device, s, time_part);
            let mut rest = all;
            for (i, c) in found.causes.iter().enumerate() {
                let ns = c.owned.get(&(s, (part, device), time_part)).copied().unwrap_or(0);
                if ns > 0 {
                    rows.push((place, Some(i), ns));
                    rest -= ns;
                }
            }
            if rest != 0 || all == 0 && time_part == TimePart::Compute {
                rows.push((place, None, rest));
            }
        }
    }
    rows.sort_by_key(|(place, cause, _)| (*place, *cause));
    for ((rank, device, s, part), cause, ns) in rows {
        let (step, step_label) = StepKey::cells(found.account.steps[s].key);
        let owner = cause.map_or(CauseKind::NotExplained, |i| found.causes[i].kind);
        table.push(TimeAccountRow {
            rank,
            device,
            step,
            step_label,
            part: part.name(),
            cause: (!part.is_work()).then(|| owner.name()),
            finding_id: cause.and_then(|i| ids.get(i)).map(String::as_str),
            time_ns: ns,
        });
    }
    table.finish()
}
