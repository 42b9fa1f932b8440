//! The diagnosis in two lines, how the time divides, and what is wrong with the recording.

use crate::mcp::answer::{Refusal, Told, clip};
use crate::mcp::rows::literal;
use crate::mcp::source::AskedSource;
use crate::mcp::tools::summary::{self, list, text, texts};
use crate::mcp::tools::{SOURCE, ToolCall};
use hta_analysis::verdict::TIME_PARTS;
use hta_diagnosis::CauseKind;
use hta_read::files::Location;
use hta_results::output::visible;
use rmcp::schemars;
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Of {
    #[schemars(description = SOURCE)]
    source: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct ToldVerdict {
    /// What costs most and what fixing it saves; then the numbers that show it, and where it is
    lines: Vec<String>,
    /// Phase, batch, time a token and tokens a second of an inference engine
    headline: Option<String>,
    /// Energy of a step, and of a token where tokens are known; from samples of the devices' power
    #[serde(skip_serializing_if = "Option::is_none")]
    energy: Option<String>,
    /// The most important causes; `causes` has all
    causes: Vec<Brief>,
    /// Ranks that were read, e.g. 0-7
    ranks: String,
    /// Dimensions of parallelism, outermost first, e.g. dp 16, pp 8, tp 8; the table `rank_places` has the
    /// place of each rank in them
    mesh: Vec<String>,
    rank_count: Option<u64>,
    world_size: Option<u64>,
    device_count: Option<u64>,
    step_count: Option<u64>,
    /// Time of the job: over all steps, the longest device of each, ns
    time_ns: Option<i64>,
    /// Share of the devices' time that is compute, percent
    compute_pct: Option<f64>,
    /// Where the devices' time goes, summed over devices and steps, ns
    parts_ns: Vec<ToldPart>,
    /// Losses and warnings of the recording
    problems: Vec<ToldProblem>,
    notes: Vec<String>,
    /// What the recording does not carry in full; all else is sure
    trust: Vec<Graded>,
}

#[derive(Serialize, JsonSchema)]
pub struct Graded {
    /// What sentences rest on, separated by commas (`explain` of `trust`)
    capabilities: String,
    /// at most (a bound) or withheld (nothing is said)
    grade: String,
    reason: String,
}

#[derive(Serialize, JsonSchema)]
pub struct Brief {
    finding_id: String,
    kind: String,
    /// What fixing it saves; empty if it saves no time
    saved: String,
    /// sure, likely, at most (a bound) or withheld
    certainty: String,
}

#[derive(Serialize, JsonSchema)]
pub struct ToldPart {
    part: String,
    time_ns: i64,
}

#[derive(Serialize, JsonSchema)]
pub struct ToldProblem {
    /// Name of a counter; `explain` of `health` has their meanings
    counter: String,
    severity: String,
    count: u64,
}

/// Longest sentence, bytes; those of a verdict are shorter.
const SENTENCE: usize = 600;

/// Most causes, problems and notes that a verdict names.
const MOST: usize = 4;

/// Most reasons for which something is not carried in full.
const MOST_REASONS: usize = 2;

pub async fn verdict(call: &ToolCall<'_>, of: Of) -> Result<Told<ToldVerdict>, Refusal> {
    let (source, folder) = call.results(of.source.as_deref()).await?;
    let summary = summary::read(&folder, &source.id).await?;
    let verdict = summary.get("verdict").filter(|v| v.is_object()).ok_or_else(|| {
        Refusal::cannot_answer(format!("`{}` has no diagnosis", source.id)).hint(
            "analyse again without --only, or with --only diagnosis; the other tools answer from what is \
                   there",
        )
    })?;
    let lines: Vec<String> = texts(verdict.get("lines")).iter().map(|l| clip(l, SENTENCE)).collect();
    if let Some([reason, action]) = withheld(call, &source, &folder).await? {
        return Err(Refusal::cannot_answer(format!("cannot tell where the time goes: {reason}"))
            .hint(format!("{action}; single tables can still be read by `sql`")));
    }
    if lines.is_empty() {
        return Err(summary::unreadable(&source.id, "expected the sentences of a verdict, found none"));
    }
    let totals = verdict.get("totals").unwrap_or(&Value::Null);
    let causes = list(verdict.get("causes")).iter().take(MOST).map(|c| Brief {
        finding_id: clip(text(c, "finding_id"), 60),
        kind: clip(text(c, "kind"), 40),
        saved: clip(text(c, "saved"), 80),
        certainty: clip(text(c, "certainty"), 20),
    });
    let problems = list(summary.get("health")).iter().filter(|h| text(h, "severity") != "info").take(MOST);
    let part = |(key, part): &(&str, &str)| {
        let time_ns = totals.get(key).and_then(Value::as_i64).filter(|t| *t != 0)?;
        Some(ToldPart { part: part.to_string(), time_ns })
    };
    let answer = ToldVerdict {
        lines,
        headline: verdict.get("headline").and_then(Value::as_str).map(|l| clip(l, SENTENCE)),
        energy: verdict.get("energy").and_then(Value::as_str).map(|l| clip(l, SENTENCE)),
        causes: causes.collect(),
        ranks: clip(text(&summary, "ranks"), 60),
        mesh: mesh(call, &source, &folder).await,
        rank_count: summary.get("rank_count").and_then(Value::as_u64),
        world_size: summary.get("world_size").and_then(Value::as_u64),
        device_count: totals.get("device_count").and_then(Value::as_u64),
        step_count: totals.get("step_count").and_then(Value::as_u64),
        time_ns: totals.get("time_ns").and_then(Value::as_i64),
        compute_pct: totals.get("parallel_efficiency").and_then(Value::as_f64).map(|v| v * 100.0),
        parts_ns: TIME_PARTS.iter().filter_map(part).collect(),
        problems: problems
            .map(|h| ToldProblem {
                counter: clip(text(h, "counter"), 40),
                severity: clip(text(h, "severity"), 10),
                count: h.get("count").and_then(Value::as_u64).unwrap_or(0),
            })
            .collect(),
        trust: graded(&summary),
        notes: texts(verdict.get("notes")).iter().take(2).map(|n| clip(n, 160)).collect(),
    };
    let head = answer.headline.iter();
    let mut text = head.chain(&answer.lines).map(|l| visible::line(l)).collect::<Vec<_>>().join("\n");
    let ids: Vec<_> = answer.causes.iter().map(|c| visible::line(&c.finding_id)).collect();
    if !answer.mesh.is_empty() {
        text.push_str(&format!("\nmesh: {}", answer.mesh.join(", ")));
    }
    if !ids.is_empty() {
        text.push_str(&format!("\nfindings: {}", ids.join(", ")));
    }
    for problem in &answer.problems {
        let (counter, severity) = (visible::line(&problem.counter), visible::line(&problem.severity));
        text.push_str(&format!("\nabout the input: {} x {counter} ({severity})", problem.count));
    }
    Ok(Told { text, answer, cursor: None })
}

/// The capabilities in `summary.json` that are not carried in full.
fn graded(summary: &Value) -> Vec<Graded> {
    let all = summary.get("trust").and_then(|t| t.get("capabilities")).and_then(Value::as_object);
    let limited = all.into_iter().flatten().filter(|(_, of)| text(of, "grade") != "sure");
    let mut out: Vec<Graded> = Vec::new();
    for (capability, of) in limited {
        let (grade, reason) = (clip(text(of, "grade"), 10), clip(text(of, "reason"), 120));
        match out.iter_mut().find(|g| g.grade == grade && g.reason == reason) {
            Some(known) => known.capabilities.push_str(&format!(",{capability}")),
            None => out.push(Graded { capabilities: capability.clone(), grade, reason }),
        }
    }
    out.truncate(MOST_REASONS);
    out
}

/// The dimensions of the job; none in results of before there were any.
async fn mesh(call: &ToolCall<'_>, source: &AskedSource, folder: &Location) -> Vec<String> {
    let sql = "SELECT DISTINCT dimension, size, stride FROM mesh WHERE dimension IS NOT NULL AND stride > 0 \
               AND size > 1 ORDER BY stride DESC, dimension";
    let rows = call.rows(source, folder, sql, 2 * MOST).await.unwrap_or_default();
    let named =
        |i| format!("{} {}", visible::line(&clip(rows.text(i, "dimension"), 20)), rows.get(i, "size"));
    (0..rows.len()).map(named).collect()
}

/// The reason for which a source has no diagnosis, and what to do, if it has none.
async fn withheld(
    call: &ToolCall<'_>,
    source: &AskedSource,
    folder: &Location,
) -> Result<Option<[String; 2]>, Refusal> {
    let kind = literal(CauseKind::InputIncomplete.name());
    let sql = format!(
        "SELECT reason, action FROM findings WHERE kind = {kind} AND certainty = 'withheld' ORDER BY position"
    );
    let rows = call.rows(source, folder, &sql, 1).await?;
    Ok((rows.len() > 0).then(|| ["reason", "action"].map(|column| clip(rows.text(0, column), 400))))
}
