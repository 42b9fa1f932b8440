//! Two runs, before and after, from their results: time of a step and its parts, and causes.

use crate::mcp::answer::{Page, Refusal, Told, clip, json_bytes};
use crate::mcp::tools::summary;
use crate::mcp::tools::{CURSOR, ToolCall, max_bytes};
use hta_analysis::api::Options;
use hta_analysis::diagnosis::Findings;
use hta_analysis::verdict::TIME_PARTS;
use hta_base::table::schema::Batch;
use hta_base::units::{fmt_ns, fmt_pct, fmt_signed_pct};
use hta_results::diff::causes::{CauseChange, changes};
use hta_results::diff::comparable::withheld;
use hta_results::diff::{ComparedRun, RunPair};
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
    /// Per step: `step` is the longest device of a step, the others are means over devices; ns
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

/// The length of a step in the totals of `summary.json`, beside the parts of the time of all devices.
const STEP: (&str, &str) = ("time_ns", "step");

/// What is compared of a run.
struct ComparedSide {
    summary: Value,
    findings: Vec<Batch>,
}

impl ComparedSide {
    fn total(&self, key: &str) -> Option<f64> {
        self.summary.get("verdict")?.get("totals")?.get(key)?.as_f64()
    }

    /// A total per step, and per device if it is summed over devices.
    fn per_step(&self, key: &str) -> Option<f64> {
        let devices = if key == STEP.0 { 1.0 } else { self.total("device_count")? };
        let count = self.total("step_count")? * devices;
        (count > 0.0).then_some(self.total(key)? / count)
    }
}

/// What `hta diff` says of two runs: sentences, and how far they can be compared. Nothing where a folder
/// lacks the tables of kernels or steps.
fn told_by_diff([base, test]: [&Results; 2]) -> Result<(Vec<String>, String), ResultsError> {
    let options = Options::default();
    let run = |results, name| ComparedRun::read(results, name, &options);
    let pair = RunPair::new(run(base, "base")?, run(test, "test")?);
    let comparable = pair.basis(&options).ok().and_then(|basis| basis.population.into_iter().next());
    let output = pair.compare(&[], true, &options).ok().map(|(output, _)| output.observations);
    let sentences =
        output.unwrap_or_default().into_iter().take(SENTENCES).map(|o| clip(&o.sentence, LONGEST));
    Ok((sentences.collect(), clip(&comparable.unwrap_or_default(), LONGEST)))
}

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
    let (causes, (stands_out, comparable)) = read.await?;
    for (findings, (source, _)) in causes.iter().zip(pair) {
        if let Some(reason) = withheld(findings) {
            let reason = clip(&reason, 400);
            return Err(Refusal::cannot_answer(format!("`{}` cannot be diagnosed: {reason}", source.id)));
        }
    }
    let ([base, test], [base_causes, test_causes]) = (summaries, causes);
    let base = ComparedSide { summary: base, findings: base_causes };
    let test = ComparedSide { summary: test, findings: test_causes };
    let change = |(key, part): &(&str, &str)| {
        let (base_ns, test_ns) = (base.per_step(key)?, test.per_step(key)?);
        let delta_pct = (base_ns > 0.0).then(|| (test_ns - base_ns) * 100.0 / base_ns);
        let is_there = base_ns != 0.0 || test_ns != 0.0;
        is_there.then(|| PartChange { part: part.to_string(), base_ns, test_ns, delta_pct })
    };
    let per_step: Vec<PartChange> = std::iter::once(&STEP).chain(&TIME_PARTS).filter_map(change).collect();
    if per_step.first().is_none_or(|c| c.part != "step") {
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
    let what =
        if change.part == "step" { "a step".to_string() } else { format!("{} in a step", change.part) };
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
