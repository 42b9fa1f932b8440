//! Time by source line: on the host, and of the GPU work that a line launched, forward and backward. Times in
//! ns.
//!
//! Every instant of a thread with an open Python frame belongs to one row ([`hta_facts::lines`]), and
//! every GPU activity to the row at which its launch call starts, or, below a backward operator, to the row
//! of its forward operator. So the rows add up to the time with an open frame, and to all GPU work.

mod annotate;
mod collect;
mod grouping;
mod key;
mod spread;
mod stacks;
mod tables;
mod view;

pub use tables::{LineTotals, LinesOverRanks, LinesTable};

use crate::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use crate::lines::annotate::AnnotatedLines;
use crate::lines::collect::{Collect, LineOwner, LineSums, idle_threads};
use crate::lines::grouping::{GroupCells, Grouping, LineBy};
use crate::lines::tables::{LineRow, LineTotalRow};
use crate::lines::view::LineSpreads;
use crate::settings::{Setting, ValueType};
use crate::stacks::{StackNodes, StackUnit, Weight, folded, speedscope_file};
use hta_base::table::schema::Batch;
use hta_base::units::{Ns, percent};
use hta_facts::calls::CallForest;
use hta_facts::direction::{Direction, Directions};
use hta_facts::lines::{Charging, LineLevel, Lines, UserCode};
use hta_facts::step_scopes::StepScopes;
use hta_job::Job;
use hta_job::recording::capability::Capability;
use hta_trace::category::Class;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::StepRule;
use std::cmp::Reverse;
use std::sync::Arc;

const BY: Setting = Setting {
    stem: "lines",
    flag: "--by",
    value: "KEY",
    help: "Rows: line, function, file or module",
    kind: ValueType::Choice(&LineBy::NAMES),
};

const SORT: Setting = Setting {
    stem: "lines",
    flag: "--sort",
    value: "COLUMN",
    help: "Order of the printed rows: self, total, gpu, blocked or alloc",
    kind: ValueType::Choice(&["self", "total", "gpu", "blocked", "alloc"]),
};

const ALL_FRAMES: Setting = Setting {
    stem: "lines",
    flag: "--all-frames",
    value: "",
    help: "Show lines of libraries, too, instead of charging their callers",
    kind: ValueType::Flag,
};

const USER: Setting = Setting {
    stem: "lines",
    flag: "--user",
    value: "GLOBS",
    help: "Files that are user code, e.g. `torch/optim/*`, joined by commas",
    kind: ValueType::Text,
};

const LIBRARY: Setting = Setting {
    stem: "lines",
    flag: "--library",
    value: "GLOBS",
    help: "Files that are library code, e.g. `transformers/*`: their time counts at the lines that call them",
    kind: ValueType::Text,
};

const FOLDED: Setting = Setting {
    stem: "lines",
    flag: "--folded",
    value: "WEIGHT",
    help: "Print folded stacks of user code (--by module: of modules) for flame graphs: self (host time) or \
           gpu, in ns",
    kind: ValueType::Choice(&["none", "self", "gpu"]),
};

const SPEEDSCOPE: Setting = Setting {
    stem: "lines",
    flag: "--speedscope",
    value: "FILE",
    help: "Write the stacks of user code to a file for speedscope: host time, or GPU durations with --folded \
           gpu",
    kind: ValueType::OutputFile,
};

const ANNOTATE: Setting = Setting {
    stem: "lines",
    flag: "--annotate",
    value: "FILE",
    help: "Print this source file with the time of its lines beside them",
    kind: ValueType::InputFile,
};

const NO_FRAMES: &str = "no Python frames: record with with_stack=True";
const FEW_FRAMES: &str =
    "fewer than half of the operators are inside Python frames: record with with_stack=True";

const CUT_FRAMES: &str = "few or no Python frames stand before the cut of its file";

/// The analysis of source lines.
pub struct LinesOf;

impl Analysis for LinesOf {
    fn about(&self) -> About {
        About {
            stem: "lines",
            title: "time by source line: host, waiting, and the GPU work launched there",
            explain: include_str!("page.md"),
            tables: &[
                LinesTable::SPEC,
                LineTotals::SPEC,
                LinesOverRanks::SPEC,
                LineSpreads::SPEC,
                AnnotatedLines::SPEC,
            ],
            views: &[view::LINES, view::IDLE, view::SPREAD, annotate::VIEW],
            rollups: &[view::OVER_RANKS],
            kept_tables: &[StackNodes::SPEC],
            settings: &[BY, SORT, ALL_FRAMES, USER, LIBRARY, FOLDED, SPEEDSCOPE, ANNOTATE],
            is_long: true,
            needs: &[Capability::Host],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, _: &mut RowEmitter) -> Partial {
        let mut partial = Partial { rank: trace.rank, tables: Vec::new(), reason: None };
        let lines = lines(trace, options);
        if lines.is_empty() {
            partial.reason = Some(if trace.columns.is_cut { CUT_FRAMES } else { NO_FRAMES });
            return partial;
        }
        let calls = CallForest::new(trace);
        let (ops, framed) = framed_ops(&calls, &lines);
        if framed * 2 < ops {
            partial.reason = Some(if trace.columns.is_cut { CUT_FRAMES } else { FEW_FRAMES });
            return partial;
        }
        let by = LineBy::named(options.settings.text(&BY));
        let grouping = Grouping::new(trace, &lines, by);
        partial.tables = vec![table(&calls, &lines, &grouping, options), totals(&calls, &lines, ops, framed)];
        if let Some(weight) = weight(options) {
            partial.tables.push(stacks::fold(&calls, &lines, grouping.modules(), weight));
        }
        partial
    }

    fn reduce(&self, partials: &[Partial], _: &Job, options: &Options) -> Output {
        let settings = &options.settings;
        let title = weight(options).map_or("", Weight::title);
        let mut tables = vec![view::spread(partials)];
        let mut note = None;
        if let Some(file) = settings.file(&ANNOTATE) {
            let lines = view::OVER_RANKS.fold(partials.iter().filter_map(|p| p.table(LinesTable::SPEC)));
            let (annotated, told) = annotate::table(&lines, options, file);
            tables.push(annotated);
            note = told;
        }
        Output {
            tables,
            notes: note.into_iter().collect(),
            raw: Weight::named(settings.text(&FOLDED)).map(|_| folded(partials)),
            files: settings
                .text(&SPEEDSCOPE)
                .map(|path| speedscope_file(path, title, StackUnit::Nanoseconds, partials))
                .into_iter()
                .collect(),
            ..Output::default()
        }
    }
}

/// The lines of a rank, with what the user says is user code.
fn lines(trace: &RankTrace, options: &Options) -> Arc<Lines> {
    let settings = &options.settings;
    if ![ALL_FRAMES, USER, LIBRARY].iter().any(|s| settings.is_given(s)) {
        return Lines::of(trace);
    }
    let code = UserCode::new(settings.flag(&ALL_FRAMES), settings.text(&USER), settings.text(&LIBRARY));
    Arc::new(Lines::new(trace, &code))
}

/// The values of the stacks, if any are asked for.
fn weight(options: &Options) -> Option<Weight> {
    let of_file = options.settings.is_given(&SPEEDSCOPE).then_some(Weight::Host);
    Weight::named(options.settings.text(&FOLDED)).or(of_file)
}

/// Operators outside the backward pass, which has no frames of its own, and those of them that start inside a
/// frame.
fn framed_ops(calls: &CallForest, lines: &Lines) -> (u64, u64) {
    let (trace, directions) = (calls.trace, Directions::of(calls.trace));
    let (mut ops, mut framed) = (0, 0);
    for p in (0..calls.forest.call_count() as u32).filter(|p| calls.is_op(*p)) {
        let row = calls.row(p);
        if !matches!(directions.at(row), Direction::Backward | Direction::Recompute) {
            ops += 1;
            framed += u64::from(lines.frame_at(trace.columns.lane[row as usize], calls.start(p)).is_some());
        }
    }
    (ops, framed)
}

fn table(calls: &CallForest, lines: &Lines, grouping: &Grouping, options: &Options) -> Batch {
    let trace = calls.trace;
    let scopes = StepScopes::new(trace, &options.model).if_by_step(options.model.steps.is_some());
    let charging = Charging::new(calls, lines);
    let (sums, has_memory) = Collect::new(calls, lines, grouping, &charging, &scopes).all();
    let cells = |(window, owner, sums): (usize, LineOwner, LineSums)| {
        (window, owner, sums, grouping.cells(owner.group))
    };
    let mut rows: Vec<(usize, LineOwner, LineSums, GroupCells)> = sums.into_rows().map(cells).collect();
    let gpu = |of: &[u32]| -> Ns { of.iter().map(|&i| trace.activities[i as usize].span.len()).sum() };
    rows.sort_by_cached_key(|(window, owner, s, cells)| {
        (*window, owner.is_idle, Reverse(s.host_self), Reverse(gpu(&s.launched)), cells.clone())
    });
    let busy = |of: &[u32]| Union::new(of.iter().map(|&i| trace.activities[i as usize].span)).len();
    let has_backward = !calls.backward.nodes.is_empty();
    let mut all: Vec<Ns> = vec![0; scopes.windows().len()];
    for (window, _, sums, _) in rows.iter().filter(|(_, owner, ..)| !owner.is_idle) {
        all[*window] += sums.host_self;
    }
    let mut table = LinesTable::default();
    for (window, owner, s, cells) in &rows {
        let w = &scopes.windows()[*window];
        table.push(LineRow {
            rank: trace.rank,
            scope: w.scope.name(),
            step: w.step,
            step_label: w.label,
            file: cells.file.as_deref(),
            line: cells.line,
            function: cells.function.as_deref(),
            module: cells.module.as_deref(),
            level: cells.level,
            is_idle_thread: owner.is_idle,
            calls: s.calls,
            host_self_ns: s.host_self,
            host_total_ns: s.host_total,
            native_ns: s.native,
            python_ns: s.host_self - s.native,
            blocked_ns: s.blocked,
            gpu_sum_ns: gpu(&s.launched),
            gpu_busy_ns: busy(&s.launched),
            bwd_gpu_sum_ns: has_backward.then(|| gpu(&s.backward)),
            bwd_gpu_busy_ns: has_backward.then(|| busy(&s.backward)),
            bwd_host_ns: has_backward.then_some(s.bwd_host),
            launches: s.launches,
            alloc_bytes: has_memory.then_some(s.alloc_bytes),
            net_bytes: has_memory.then_some(s.net_bytes),
            h2d_bytes: s.h2d_bytes,
            d2h_bytes: s.d2h_bytes,
            self_pct: percent(s.host_self, all[*window]).filter(|_| !owner.is_idle),
        });
    }
    table.finish()
}

fn totals(calls: &CallForest, lines: &Lines, op_count: u64, framed_op_count: u64) -> Batch {
    let trace = calls.trace;
    let idle = idle_threads(calls, lines);
    let (mut host_self_ns, mut idle_ns) = (0, 0);
    for (lane, innermost) in lines.threads() {
        let ns: Ns = innermost.from(Ns::MIN).map(|p| p.span.len()).sum();
        host_self_ns += ns;
        idle_ns += if idle.contains(lane) { ns } else { 0 };
    }
    let mut table = LineTotals::default();
    table.push(LineTotalRow {
        rank: trace.rank,
        frame_count: trace.classes.iter().filter(|c| **c == Class::Python).count() as u64,
        op_count,
        framed_op_count,
        has_lines: lines.sites.iter().any(|s| s.level == LineLevel::Line),
        step_count: trace.steps.steps.len().max(1) as u64,
        steps_ns: match trace.steps.rule {
            StepRule::Capture => trace.capture.len(),
            _ => trace.steps.steps.iter().map(|s| s.host.len()).sum(),
        },
        host_self_ns,
        idle_ns,
        gpu_ns: trace.gpu_ns(),
        gpu_unlinked_ns: trace.unlinked_ns(),
    });
    table.finish()
}
