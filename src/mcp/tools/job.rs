//! What costs time: the sources, the verdict, its causes and their evidence.

use crate::diagnosis::kind::CauseKind;
use crate::mcp::answer::{Page, Refusal, Told, clip};
use crate::mcp::rows::{Rows, literal};
use crate::mcp::source::Source;
use crate::mcp::tools::{Call, listed};
use crate::sql::nearest::nearest;
use crate::units::{fmt_ns, fmt_pct};
use rmcp::schemars;
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::Path;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// `cursor` of the last answer, for what follows
    cursor: Option<String>,
    /// Size of the answer, 500 to 100000 bytes (default: 2000)
    max_bytes: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub struct Listed {
    sources: Vec<Known>,
}

#[derive(Serialize, JsonSchema)]
pub struct Known {
    /// Pass it to other tools as `source`
    id: String,
    /// results: a folder of `hta analyze`; traces: analysed at first use
    kind: String,
    path: String,
    /// Whether tools answer without reading traces first
    is_ready: bool,
}

pub async fn sources(call: &Call<'_>, of: List) -> Result<Told<Listed>, Refusal> {
    let page = Page::new(of.cursor.as_deref(), of.max_bytes)?;
    let all = call.sources.list();
    let items = all.iter().map(|s| {
        let known = Known {
            id: s.id.clone(),
            kind: s.kind.name().to_string(),
            path: clip(&s.shown, page.text_bytes()),
            is_ready: s.is_ready(),
        };
        let when = if known.is_ready { "" } else { ", not analysed yet" };
        (format!("{} ({}{when})", known.id, known.kind), known)
    });
    let (text, sources, cursor) = listed(&page, &format!("{} sources", all.len()), items.collect());
    Ok(Told { text, answer: Listed { sources }, cursor })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Of {
    /// Id of `sources`, or a path below an allowed folder; may be left out if there is only one source
    source: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct Verdict {
    /// The first cause with its gain; then efficiency, next causes and trust
    lines: Vec<String>,
    /// The most important causes; `causes` has all
    causes: Vec<Brief>,
    /// Ranks that were read, e.g. 0-7
    ranks: String,
    rank_count: Option<u64>,
    world_size: Option<u64>,
    device_count: Option<u64>,
    step_count: Option<u64>,
    /// Time of the job: over all steps, the longest device of each, ns
    time_ns: Option<i64>,
    /// Share of the devices' time that is useful compute, percent
    useful_pct: Option<f64>,
    /// Where the devices' time goes, summed over devices and steps, ns
    parts_ns: Vec<Part>,
    /// Losses and warnings of the recording
    problems: Vec<Problem>,
    notes: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct Brief {
    finding_id: String,
    kind: String,
    /// What its repair gives
    gain: String,
}

#[derive(Serialize, JsonSchema)]
pub struct Part {
    part: String,
    time_ns: i64,
}

#[derive(Serialize, JsonSchema)]
pub struct Problem {
    /// Name of a counter; `explain` of `health` has their meanings
    counter: String,
    severity: String,
    count: u64,
}

/// Most causes, problems and notes that a verdict names.
const MOST: usize = 4;

/// Parts of the devices' time in `summary.json`, with their names.
const PARTS: [(&str, &str); 6] = [
    ("useful_ns", "useful"),
    ("synchronizing_ns", "synchronizing"),
    ("transfer_ns", "transfer"),
    ("unmatched_ns", "unmatched communication"),
    ("exposed_copies_ns", "exposed copies"),
    ("idle_ns", "idle"),
];

pub async fn verdict(call: &Call<'_>, of: Of) -> Result<Told<Verdict>, Refusal> {
    let (source, folder) = call.results(of.source.as_deref()).await?;
    let summary = summary(&folder, &source.id)?;
    let verdict = summary.get("verdict").filter(|v| v.is_object()).ok_or_else(|| {
        Refusal::cannot_answer(format!("`{}` has no diagnosis", source.id))
            .hint("analyse again without --only, or with --only diagnosis; the other tools answer from what is there")
    })?;
    let lines: Vec<String> = texts(verdict.get("lines")).iter().map(|l| clip(l, 220)).collect();
    if let Some(reason) = withheld(call, &source, &folder).await? {
        return Err(Refusal::cannot_answer(format!("cannot tell where the time goes: {reason}")).hint(
            "record again as `explain` of `diagnosis` says under Trust; single tables can still be read by `sql`",
        ));
    }
    let totals = verdict.get("totals").unwrap_or(&Value::Null);
    let causes = list(verdict.get("causes")).iter().take(MOST).map(|c| Brief {
        finding_id: clip(text(c, "finding_id"), 60),
        kind: clip(text(c, "kind"), 40),
        gain: clip(text(c, "gain"), 80),
    });
    let problems = list(summary.get("health")).iter().filter(|h| text(h, "severity") != "info").take(MOST);
    let part = |(key, part): &(&str, &str)| {
        let time_ns = totals.get(key).and_then(Value::as_i64).filter(|t| *t != 0)?;
        Some(Part { part: part.to_string(), time_ns })
    };
    let answer = Verdict {
        lines,
        causes: causes.collect(),
        ranks: clip(text(&summary, "ranks"), 60),
        rank_count: summary.get("rank_count").and_then(Value::as_u64),
        world_size: summary.get("world_size").and_then(Value::as_u64),
        device_count: totals.get("device_count").and_then(Value::as_u64),
        step_count: totals.get("step_count").and_then(Value::as_u64),
        time_ns: totals.get("time_ns").and_then(Value::as_i64),
        useful_pct: totals.get("parallel_efficiency").and_then(Value::as_f64).map(|v| v * 100.0),
        parts_ns: PARTS.iter().filter_map(part).collect(),
        problems: problems
            .map(|h| Problem {
                counter: clip(text(h, "counter"), 40),
                severity: clip(text(h, "severity"), 10),
                count: h.get("count").and_then(Value::as_u64).unwrap_or(0),
            })
            .collect(),
        notes: texts(verdict.get("notes")).iter().take(2).map(|n| clip(n, 160)).collect(),
    };
    let mut text = answer.lines.join("\n");
    let ids: Vec<&str> = answer.causes.iter().map(|c| c.finding_id.as_str()).collect();
    if !ids.is_empty() {
        text.push_str(&format!("\nfindings: {}", ids.join(", ")));
    }
    for problem in &answer.problems {
        text.push_str(&format!("\nabout the input: {} x {} ({})", problem.count, problem.counter, problem.severity));
    }
    Ok(Told { text, answer, cursor: None })
}

/// The reason for which a source has no diagnosis, if it has none.
async fn withheld(call: &Call<'_>, source: &Source, folder: &Path) -> Result<Option<String>, Refusal> {
    let kind = literal(CauseKind::InputIncomplete.name());
    let sql = format!("SELECT trust_reason FROM findings WHERE kind = {kind} AND trust = 'withheld' ORDER BY position");
    let rows = call.rows(source, folder, &sql, 1).await?;
    Ok((rows.len() > 0).then(|| clip(rows.text(0, "trust_reason"), 400)))
}

/// `summary.json` of a results folder.
pub fn summary(folder: &Path, name: &str) -> Result<Value, Refusal> {
    // It is small, whatever the number of ranks.
    const LONGEST: u64 = 4 << 20;
    let mut bytes = Vec::new();
    let read = File::open(folder.join("summary.json")).and_then(|f| f.take(LONGEST).read_to_end(&mut bytes));
    let failed = |reason: String| {
        Refusal::cannot_answer(format!("cannot read summary.json of `{name}`: {reason}"))
            .hint("give a folder that `hta analyze` or `hta merge` has left, or run it again")
    };
    read.map_err(|e| failed(e.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|e| failed(e.to_string()))
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn texts(value: Option<&Value>) -> Vec<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OfPaged {
    /// Id of `sources`, or a path below an allowed folder; may be left out if there is only one source
    source: Option<String>,
    /// `cursor` of the last answer, for what follows
    cursor: Option<String>,
    /// Size of the answer, 500 to 100000 bytes (default: 2000)
    max_bytes: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub struct Causes {
    causes: Vec<Cause>,
}

#[derive(Serialize, JsonSchema)]
pub struct Cause {
    /// The same in every run that has this cause
    finding_id: String,
    kind: String,
    /// Its ranks in words
    ranks: String,
    /// Its steps, separated by commas; empty: all
    steps: String,
    /// Gain over all steps if only this cause is repaired, ns
    recoverable_ns: Option<i64>,
    /// The same, percent of the job's time
    recoverable_pct: Option<f64>,
    /// A measured, B by interpretation, C only a bound
    confidence: String,
    /// ok, downgraded or withheld
    trust: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trust_reason: Option<String>,
    sentence: String,
}

/// Most causes that are read.
const MOST_CAUSES: usize = 10_000;

pub async fn causes(call: &Call<'_>, of: OfPaged) -> Result<Told<Causes>, Refusal> {
    let page = Page::new(of.cursor.as_deref(), of.max_bytes)?;
    let (source, folder) = call.results(of.source.as_deref()).await?;
    let sql = format!(
        "SELECT finding_id, kind, rank_label, step_labels, recoverable_ns, recoverable_pct, confidence, trust, \
         trust_reason, sentence FROM findings WHERE kind <> {} ORDER BY position",
        literal(CauseKind::NotExplained.name())
    );
    let rows = call.rows(&source, &folder, &sql, MOST_CAUSES).await?;
    let most = page.text_bytes();
    let cause = |i: usize| {
        let cell = |column: &str| clip(rows.text(i, column), most);
        let reason = rows.get(i, "trust_reason").as_str().map(|r| clip(r, most));
        let cause = Cause {
            finding_id: cell("finding_id"),
            kind: cell("kind"),
            ranks: cell("rank_label"),
            steps: cell("step_labels"),
            recoverable_ns: rows.get(i, "recoverable_ns").as_i64(),
            recoverable_pct: rows.get(i, "recoverable_pct").as_f64(),
            confidence: cell("confidence"),
            trust: cell("trust"),
            trust_reason: reason,
            sentence: cell("sentence"),
        };
        let gain = cause.recoverable_ns.map(fmt_ns).unwrap_or_default();
        let share = fmt_pct(cause.recoverable_pct);
        let Cause { finding_id, ranks, confidence, trust, sentence, .. } = &cause;
        let line = format!(
            "{finding_id}: {sentence} ({ranks}; gain {gain} over all steps, {share}; confidence {confidence}, trust {trust})"
        );
        (line, cause)
    };
    let head = match rows.len() {
        0 => "no cause takes 1 % of the time".to_string(),
        1 => "1 cause".to_string(),
        n => format!("{n} causes, the most important first"),
    };
    let (text, causes, cursor) = listed(&page, &head, (0..rows.len()).map(cause).collect());
    Ok(Told { text, answer: Causes { causes }, cursor })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvidenceOf {
    /// Id of a cause, as `causes` gives it
    finding_id: String,
    /// Id of `sources`, or a path below an allowed folder; may be left out if there is only one source
    source: Option<String>,
    /// `cursor` of the last answer, for what follows
    cursor: Option<String>,
    /// Size of the answer, 500 to 100000 bytes (default: 2000)
    max_bytes: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub struct Evidence {
    finding_id: String,
    sentence: String,
    /// What to do
    action: String,
    /// How the gain was found: replay, bound, roofline or assumed
    basis: String,
    confidence: String,
    trust: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trust_reason: Option<String>,
    evidence: Vec<Number>,
}

#[derive(Serialize, JsonSchema)]
pub struct Number {
    /// A number with its words
    words: String,
    /// Selects the rows in which it stands
    sql: String,
}

pub async fn evidence(call: &Call<'_>, of: EvidenceOf) -> Result<Told<Evidence>, Refusal> {
    let page = Page::new(of.cursor.as_deref(), of.max_bytes)?;
    let (source, folder) = call.results(of.source.as_deref()).await?;
    let id = literal(&of.finding_id);
    let sql = format!(
        "SELECT sentence, action, basis, confidence, trust, trust_reason FROM findings WHERE finding_id = {id} \
         ORDER BY position"
    );
    let found = call.rows(&source, &folder, &sql, 1).await?;
    if found.len() == 0 {
        let known = call.rows(&source, &folder, "SELECT finding_id FROM findings ORDER BY position", 100).await?;
        let ids: Vec<&str> = (0..known.len()).map(|i| known.text(i, "finding_id")).collect();
        let near = nearest(&of.finding_id, ids.iter().copied());
        let shown = clip(&of.finding_id, 80);
        let hint = near.map_or_else(|| format!("one of {}", ids.join(", ")), |n| format!("did you mean `{n}`?"));
        return Err(Refusal::refused(format!("`{}` has no finding `{shown}`", source.id)).hint(hint));
    }
    let sql =
        format!("SELECT evidence_table, filter, words FROM finding_evidence WHERE finding_id = {id} ORDER BY position");
    let numbers = call.rows(&source, &folder, &sql, MOST_CAUSES).await?;
    let cell = |column: &str| clip(found.text(0, column), page.text_bytes());
    let mut answer = Evidence {
        finding_id: clip(&of.finding_id, 80),
        sentence: cell("sentence"),
        action: cell("action"),
        basis: cell("basis"),
        confidence: cell("confidence"),
        trust: cell("trust"),
        trust_reason: found.get(0, "trust_reason").as_str().map(|r| clip(r, page.text_bytes())),
        evidence: Vec::new(),
    };
    let head = format!("{}\ndo: {}", answer.sentence, answer.action);
    // The sentence and the advice stand in text and content.
    let both = head.len() + answer.sentence.len() + answer.action.len();
    let filled = page.fill(both, (0..numbers.len()).map(|i| number(&numbers, i, page.text_bytes())));
    answer.evidence = filled.items;
    Ok(Told { text: format!("{head}\n{}", filled.lines), answer, cursor: filled.cursor })
}

fn number(rows: &Rows, i: usize, most: usize) -> (String, Number) {
    let (table, filter) = (rows.text(i, "evidence_table"), rows.text(i, "filter"));
    let filter = if filter.is_empty() { String::new() } else { format!(" WHERE {filter}") };
    let number = Number { words: clip(rows.text(i, "words"), most), sql: format!("SELECT * FROM {table}{filter}") };
    (format!("- {}: {}", number.words, number.sql), number)
}
