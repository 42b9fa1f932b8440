//! Two runs, before and after, from their results: time of a step and its parts, and causes.

use crate::mcp::answer::{Page, Refusal, Told, clip, json_bytes};
use crate::mcp::tools::summary;
use crate::mcp::tools::{CURSOR, ToolCall, max_bytes};
use hta_analysis::api::Options;
use hta_base::table::schema::{Batch, Table};
use hta_base::units::{fmt_ns, fmt_pct, fmt_signed_pct};
use hta_diagnosis::Findings;
use hta_results::diff::causes::{CauseChange, changes};
use hta_results::diff::comparable::withheld;
use hta_results::diff::{ComparedRun, RunPair, Summaries, SummaryRow};
use hta_results::results::{Results, ResultsError};
use rmcp::schemars;
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Two {
    /// The run before: id of `sources`, or a path below an allowed folder
    base: String,
    /// The run after
    test: String,
    #[schemars(description = CURSOR)]
    cursor: Option<String>,
    #[schemars(description = max_bytes())]
    max_bytes: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub struct ComparedRuns {
    /// What changed, as `hta diff` says it: first the step
    stands_out: Vec<String>,
    /// How far the runs can be compared: sure, likely, at most or withheld, with the reasons
    comparable: String,
    /// Time of a step and its parts, as in `diff_summary`: means over ranks and devices of the full steps; ns
    per_step: Vec<PartChange>,
    /// Causes that are gone, new or changed first
    causes: Vec<ToldChange>,
    /// Why the runs may not be alike
    warnings: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct PartChange {
    part: String,
    base_ns: f64,
    test_ns: f64,
    /// Of base, percent
    delta_pct: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CauseChange")]
pub struct ToldChange {
    /// gone, new, changed or same
    state: String,
    finding_id: String,
    /// What fixing it saves, percent of the job's time; null: not there
    base_pct: Option<f64>,
    test_pct: Option<f64>,
    sentence: String,
}

/// What is compared of a run.
struct ComparedSide {
    summary: Value,
    findings: Vec<Batch>,
}

/// What `hta diff` says of two runs.
#[derive(Default)]
struct ToldByDiff {
    /// What changed.
    sentences: Vec<String>,
    /// How far they can be compared.
    comparable: String,
    per_step: Vec<PartChange>,
}

/// Compares two runs as `hta diff` does. Nothing is told where a folder lacks the tables of kernels or steps.
fn told_by_diff([base, test]: [&Results; 2]) -> Result<ToldByDiff, ResultsError> {
    let options = Options::default();
    let run = |results, name| ComparedRun::read(results, name, &options);
    let pair = RunPair::new(run(base, "base")?, run(test, "test")?);
    let comparable = pair.basis(&options).ok().and_then(|basis| basis.population.into_iter().next());
    let comparable = clip(&comparable.unwrap_or_default(), LONGEST);
    let Ok((output, _)) = pair.compare(&[], true, &options) else {
        return Ok(ToldByDiff { comparable, ..ToldByDiff::default() });
    };
    let sentences = output.sentences.iter().take(SENTENCES).map(|sentence| clip(sentence, LONGEST));
    let of_steps = output.tables.iter().filter(|b| b.spec.name == Summaries::SPEC.name);
    let rows = of_steps.flat_map(Summaries::rows).filter(|r| r.is_part || r.metric == STEP_TIME);
    let change = |r: SummaryRow| {
        let (base_ns, test_ns) = (r.base_ns_per_step, r.test_ns_per_step);
        let part = if r.metric == STEP_TIME { STEP } else { r.metric }.to_string();
        (base_ns != 0.0 || test_ns != 0.0).then_some(PartChange {
            part,
            base_ns,
            test_ns,
            delta_pct: r.delta_pct,
        })
    };
    Ok(ToldByDiff { sentences: sentences.collect(), comparable, per_step: rows.filter_map(change).collect() })
}

/// The time of a step in `diff_summary`, and its name in an answer.
const STEP_TIME: &str = "step_time";
const STEP: &str = "step";

/// The causes of a run, of which it has some if its recording allows a diagnosis.
fn findings(results: &Results) -> Result<Vec<Batch>, ResultsError> {
    results.batches(Findings::SPEC)?.ok_or_else(|| results.no_table(Findings::SPEC))
}

/// Most sentences of an answer, and the longest one, bytes.
const SENTENCES: usize = 2;
const LONGEST: usize = 200;

pub async fn compare(call: &ToolCall<'_>, of: Two) -> Result<Told<ComparedRuns>, Refusal> {
    let page = Page::new(of.cursor.as_deref(), of.max_bytes)?;
    let (base_source, base_folder) = call.results(Some(&of.base)).await?;
    let (test_source, test_folder) = call.results(Some(&of.test)).await?;
    let pair = [(&*base_source, &base_folder), (&*test_source, &test_folder)];
    let summaries = [
        summary::read(&base_folder, &base_source.id).await?,
        summary::read(&test_folder, &test_source.id).await?,
    ];
    let read = call.read(pair, |[base, test]| {
        let (base, test) = (base?, test?);
        let causes = [findings(&base)?, findings(&test)?];
        let has_diagnosis = causes.iter().all(|findings| withheld(findings).is_none());
        let told = if has_diagnosis { told_by_diff([&base, &test])? } else { Default::default() };
        Ok((causes, told))
    });
    let (causes, ToldByDiff { sentences: stands_out, comparable, per_step }) = read.await?;
    for (findings, (source, _)) in causes.iter().zip(pair) {
        if let Some(reason) = withheld(findings) {
            let reason = clip(&reason, 400);
            return Err(Refusal::cannot_answer(format!("`{}` cannot be diagnosed: {reason}", source.id)));
        }
    }
    let ([base, test], [base_causes, test_causes]) = (summaries, causes);
    let base = ComparedSide { summary: base, findings: base_causes };
    let test = ComparedSide { summary: test, findings: test_causes };
    if per_step.first().is_none_or(|c| c.part != STEP) {
        return Err(Refusal::cannot_answer("a run has no steps with a diagnosis")
            .hint("mark steps (profiler.step()), or compare the traces: hta diff BASE TEST"));
    }
    let mut warnings = Vec::new();
    for (key, what) in [("world_size", "world sizes"), ("rank_count", "numbers of ranks")] {
        let (b, t) = (base.summary.get(key), test.summary.get(key));
        if b != t {
            let shown = |v: Option<&Value>| v.map_or("unknown".to_string(), Value::to_string);
            warnings.push(format!("{what} differ: {} and {}", shown(b), shown(t)));
        }
    }
    let lines = stands_out.iter().chain(Some(&comparable).filter(|c| !c.is_empty())).cloned();
    let rest = per_step.iter().map(line).chain(warnings.iter().map(|w| format!("warning: {w}")));
    let head = lines.chain(rest).collect::<Vec<_>>().join("\n");
    let content =
        json_bytes(&per_step) + json_bytes(&warnings) + json_bytes(&stands_out) + json_bytes(&comparable);
    let filled = page.fill(head.len() + content, told(&base, &test, page.text_bytes()));
    let none = if filled.items.is_empty() { "\nno cause on either side gives 1 % of the time" } else { "" };
    let text = format!("{head}{none}\n{}", filled.lines);
    Ok(Told {
        text,
        answer: ComparedRuns { stands_out, comparable, per_step, causes: filled.items, warnings },
        cursor: filled.cursor,
    })
}

fn line(change: &PartChange) -> String {
    let (base, test) = (fmt_ns(change.base_ns.round() as i64), fmt_ns(change.test_ns.round() as i64));
    let delta = change.delta_pct.map_or("new".to_string(), fmt_signed_pct);
    let what = if change.part == STEP { "a step".to_string() } else { format!("{} in a step", change.part) };
    format!("{what}: {base} -> {test} ({delta})")
}

/// Causes before and after, with the line that tells each.
fn told(base: &ComparedSide, test: &ComparedSide, most: usize) -> Vec<(String, ToldChange)> {
    let changes = changes(&base.findings, &test.findings).into_iter();
    let items = changes.map(|CauseChange { state, base_pct, test_pct, shown }| {
        let (state, finding_id) = (state.name().to_string(), shown.finding_id.to_string());
        let line = format!("{state} {finding_id}: {} -> {}", fmt_pct(base_pct), fmt_pct(test_pct));
        (line, ToldChange { state, finding_id, base_pct, test_pct, sentence: clip(shown.sentence, most) })
    });
    items.collect()
}
