//! What `pipeline` prints.

use crate::api::{Align, Certainty, Observation, Options, View};
use crate::job::{Job, RankSummary};
use crate::pipeline::bubble_words::{parts_words, shape_words};
use crate::pipeline::measured::{PipelineRun, PipelineStep};
use crate::pipeline::stages::{StageVerdict, StagedPipelines, WorstPipeline};
use crate::pipeline::tables::in_order;
use crate::pipeline::what_if::changes;
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};

pub(super) fn views(job: &Job, staged: &StagedPipelines, options: &Options) -> Vec<View> {
    let mut out = vec![steps_view(job, staged, options)];
    if let Some(worst) = staged.worst() {
        out.push(ranks_view(worst.number, worst.run, worst.step));
        out.extend(changes_view(worst.number, worst.run));
    }
    out
}

fn steps_view(job: &Job, staged: &StagedPipelines, options: &Options) -> View {
    let pipelines = &staged.pipelines;
    let mut view = View {
        title: "Bubble of each pipeline, in its typical step".to_string(),
        columns: vec![
            ("ranks", Align::Left),
            ("schedule", Align::Left),
            ("time", Align::Right),
            ("bubble", Align::Right),
            ("of it by the order", Align::Right),
            ("unequal stages", Align::Right),
            ("jitter", Align::Right),
            ("transfer", Align::Right),
            ("lag", Align::Right),
        ],
        rows: Vec::new(),
        notes: Vec::new(),
    };
    for run in pipelines.runs.iter().take(options.top) {
        let Some(s) = run.typical() else { continue };
        let of_time = |ns: Option<Ns>| fmt_pct(ns.and_then(|ns| percent(ns, s.whole.len())));
        let parts = s.reasons.as_ref().ok();
        let ranks: Vec<u32> = run.chain.ranks.iter().map(|r| r.rank).collect();
        view.rows.push(vec![
            in_order(&ranks),
            shape_words(s),
            fmt_ns(s.whole.len()),
            fmt_pct(s.bubble_pct()),
            of_time(parts.map(|p| p.schedule)),
            of_time(parts.map(|p| p.imbalance)),
            of_time(parts.map(|p| p.jitter)),
            of_time(parts.and_then(|p| p.transfer)),
            of_time(parts.map(|p| p.lag)),
        ]);
        if let Err(why) = &s.reasons {
            view.notes.push(format!("pipeline of ranks {}: {}", in_order(&ranks), why.words()));
        }
    }
    view.notes.extend(pipelines.runs.iter().chain(&pipelines.unknown).filter_map(left_out));
    if pipelines.runs.is_empty() && pipelines.unknown.is_empty() {
        view.notes.push(format!("no pipeline found: {}", why_none(job)));
    }
    let rest = pipelines.runs.len().saturating_sub(options.top);
    if rest > 0 {
        view.notes.push(format!("{rest} more pipelines are in the table pipelines"));
    }
    for (run, stage) in staged.runs().take(options.top) {
        if let (Some(stage), Some(s)) = (stage, run.typical()) {
            let why = match stage.verdict {
                StageVerdict::TooMuchWork => "it has more work",
                StageVerdict::SlowRank => "the same stage of other pipelines is not longer: its rank is slow",
                StageVerdict::CannotTell => {
                    "whether its work or its device is why, one pipeline with equal kernels cannot tell"
                }
            };
            let is_ok = s.reasons.is_ok();
            view.notes.extend(is_ok.then(|| {
                format!(
                    "stage {} (rank {}) takes {:.2} times as long as the usual stage: {why}",
                    stage.stage, stage.rank, stage.ratio
                )
            }));
        }
    }
    view
}

/// Why no ranks are stages of a pipeline.
fn why_none(job: &Job) -> String {
    let has_messages = |p: &&RankSummary| p.calls.calls.iter().any(|c| c.shape.kind.is_point_to_point());
    let mut open: Vec<u32> = Vec::new();
    let mut count = 0;
    for p in job.parts.iter().filter(has_messages) {
        count += 1;
        open.extend(p.chunks.is_empty().then_some(p.rank));
    }
    match (count, &open[..]) {
        (0, _) => "no rank sends or receives messages".to_string(),
        (_, []) => "ranks exchange messages, but not as stages do, which send results of forward chunks to \
                    one rank and of backward chunks to another"
            .to_string(),
        _ => format!(
            "ranks exchange messages, but the forward and backward chunks of {} cannot be told: record \
             operators (ProfilerActivity.CPU), which show where autograd runs",
            job.words.plain(&open)
        ),
    }
}

/// Which steps of a pipeline were not measured, and why.
fn left_out(run: &PipelineRun) -> Option<String> {
    let steps: Vec<String> = run.left_out.iter().flatten().map(|key| key.shown()).collect();
    let which = match (run.left_out.len(), steps.len()) {
        (0, _) => return None,
        (_, 0) => "it is".to_string(),
        (1, _) => format!("step {} is", steps.concat()),
        (n, _) if n <= 8 => format!("steps {} are", steps.join(", ")),
        (n, _) => format!("{n} steps are"),
    };
    let ranks: Vec<u32> = run.chain.ranks.iter().map(|r| r.rank).collect();
    Some(format!(
        "pipeline of ranks {}: {which} left out, because its ranks do not have equally many forward and \
         backward chunks there",
        in_order(&ranks)
    ))
}

fn ranks_view(number: usize, run: &PipelineRun, s: &PipelineStep) -> View {
    let mut view = View {
        title: format!("Ranks of pipeline {number}, the one with the largest bubble"),
        columns: vec![
            ("rank", Align::Right),
            ("busy", Align::Right),
            ("fill", Align::Right),
            ("steady", Align::Right),
            ("drain", Align::Right),
            ("bubble", Align::Right),
        ],
        rows: Vec::new(),
        notes: Vec::new(),
    };
    for (rank, parts) in run.chain.ranks.iter().zip(&s.positions) {
        let cells = match parts {
            Some(p) => vec![
                fmt_ns(p.busy),
                fmt_ns(p.fill),
                fmt_ns(p.steady),
                fmt_ns(p.drain),
                fmt_pct(percent(p.bubble(), s.whole.len())),
            ],
            None => {
                vec!["not recorded".to_string(), String::new(), String::new(), String::new(), String::new()]
            }
        };
        view.rows.push(std::iter::once(rank.rank.to_string()).chain(cells).collect());
    }
    view.notes.push("fill: before the first backward chunk; drain: after the last forward chunk".to_string());
    if s.placed.schedule.is_none() && s.placed.has_stages {
        let first = s.placed.ranks.iter().find(|r| r.at.part.is_some());
        let order =
            first.map(|r| r.chunks.iter().take(32).map(|c| c.chunk.shown()).collect::<Vec<_>>().join(" "));
        view.notes.extend(order.map(|order| format!("order of the first rank: {order}")));
    }
    view
}

fn changes_view(number: usize, run: &PipelineRun) -> Option<View> {
    let changes = changes(run);
    let rows: Vec<Vec<String>> = changes
        .iter()
        .map(|c| {
            vec![
                format!("{}: {}", c.change, c.value),
                c.gain.map_or(String::new(), fmt_ns),
                c.step.map_or(String::new(), fmt_ns),
                fmt_ns(c.per_micro_batch),
                c.needs.to_string(),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| View {
        title: format!("What pipeline {number} would take with other stages or micro-batches"),
        columns: vec![
            ("change", Align::Left),
            ("gain", Align::Right),
            ("then", Align::Right),
            ("a micro-batch", Align::Right),
            ("needs", Align::Left),
        ],
        rows,
        notes: vec![
            "replays with the median chunks of each stage, without transfers and lag: about".to_string(),
        ],
    })
}

/// What stands out: the bubble of all pipelines together.
pub(super) fn observation(staged: &StagedPipelines) -> Option<Observation> {
    let WorstPipeline { run, step: s, stage, .. } = staged.worst()?;
    let pct = s.bubble_pct().filter(|p| *p >= 1.0)?;
    let parts = parts_words(s, stage).map_or(String::new(), |parts| format!(" ({parts})"));
    Some(Observation {
        analysis: "pipeline",
        ranks: run.chain.ranks.iter().filter(|r| r.part.is_some()).map(|r| r.rank).collect(),
        steps: Vec::new(),
        cost_ns_per_step: s.whole.len() - s.busy_mean(),
        share_of_step: Some(pct / 100.0),
        certainty: Certainty::Measured,
        sentence: format!("Pipeline {}: bubble {}{parts}", shape_words(s), fmt_pct(Some(pct))),
        table: "pipelines",
    })
}
