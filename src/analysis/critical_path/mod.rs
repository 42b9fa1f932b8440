//! The critical path: the work that determines the length of a step. It is found by walking back from the end
//! of the window, each time to the event that arrived last. The path is a chain, so it covers the window
//! without gaps or overlaps.
//!
//! [`path`] gives the segments of any window of a rank.

mod nodes;
mod report;
mod segment;
pub mod tables;
mod walk;
mod window;

pub use segment::{Edge, PathClass, PathSegment, SegmentPlace};
pub use walk::{Paths, path};
pub use window::{PathWindow, annotation, choose};

use crate::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use crate::settings::{Setting, ValueType};
use hta_base::units::Span;
use hta_job::Job;
use hta_job::recording::capability::Capability;
use hta_trace::rank_trace::RankTrace;
use tables::{
    ClassRow, CriticalByRank, CriticalOverRanks, CriticalPathTable, CriticalSummary, PathWindowColumns,
};

const STEM: &str = "critical-path";

/// Option for the path of an annotation.
pub const ANNOTATION: Setting = Setting {
    stem: STEM,
    flag: "--annotation",
    value: "NAME[:k]",
    help: "Find the path of the k-th occurrence of an annotation, from 0, instead of a step",
    kind: ValueType::Text,
};

/// Option for the path of the whole capture.
pub const CAPTURE: Setting = Setting {
    stem: STEM,
    flag: "--capture",
    value: "",
    help: "Find the path of the whole recording instead of a step",
    kind: ValueType::Flag,
};

/// The segment from the first recorded event to the end of the lead, for the path of the whole capture. What
/// the device did there is not recorded, so the path cannot continue.
fn before_capture(trace: &RankTrace, window: &PathWindow) -> Option<PathSegment> {
    let span = Span::new(trace.recorded.start, window.span.start);
    let is_lead = window.scope == "capture" && !trace.edges.leads().is_empty() && !span.is_empty();
    is_lead.then_some(PathSegment {
        span,
        class: PathClass::BeforeCapture,
        edge: Edge::Anchor,
        event: None,
        source: None,
        place: SegmentPlace::Nowhere,
        is_doubtful: false,
    })
}

pub struct CriticalPath;

impl Analysis for CriticalPath {
    fn about(&self) -> About {
        About {
            stem: STEM,
            title: "the chain of work and waiting that determines a step's length",
            explain: include_str!("page.md"),
            tables: &[
                CriticalSummary::SPEC,
                CriticalOverRanks::SPEC,
                CriticalByRank::SPEC,
                CriticalPathTable::SPEC,
            ],
            views: &tables::VIEWS,
            rollups: &[tables::BY_RANK],
            kept_tables: &[tables::PathCalls::SPEC],
            settings: &[ANNOTATION, CAPTURE],
            joins_peers: true,
            needs: &[Capability::DeviceTime, Capability::Launch],
            is_long: true,
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let mut partial = Partial { rank: trace.rank, tables: Vec::new(), reason: None };
        let mut summary = CriticalSummary::default();
        let window = match choose(trace, options) {
            Ok(window) if !window.span.is_empty() => window,
            other => {
                partial.reason = Some(other.err().unwrap_or("the window is empty"));
                partial.tables.push(summary.finish());
                return partial;
            }
        };
        let mut path = path(trace, window.span);
        path.splice(0..0, before_capture(trace, &window));
        let sums = tables::sums(trace, &path);
        let mut classes: Vec<ClassRow> =
            sums.iter().map(|(class, sum)| ClassRow::new(class.name().to_string(), sum)).collect();
        tables::sort(&mut classes);
        tables::push(&mut summary, &PathWindowColumns::new(trace.rank, &window), &classes);
        partial.tables.extend([summary.finish(), tables::communication(trace, &path)]);
        if options.wants(CriticalPathTable::SPEC) {
            tables::rows(trace, &window, &path, give);
        }
        partial
    }

    fn reduce(&self, partials: &[Partial], job: &Job, _: &Options) -> Output {
        report::reduce(partials, job)
    }
}
