//! What a trace of captures says of its graphs: the calls of each, with the operators, modules and lines
//! around them.

use crate::calls::CallForest;
use crate::counted_work::CountedWorks;
use crate::lines::{LineLevel, Lines};
use crate::modules::{InModules, around};
use hashbrown::HashMap;
use hta_base::units::Span;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::graph_capture::{
    CaptureFile, CapturedCall, CapturedGraph, CapturedOperator, NodeKind, padded_batch,
};
use hta_trace::launch::{is_graph_launch, is_launch_call};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::Interner;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Python frames that are kept of a stack.
const FRAMES: usize = 5;

/// The captured graphs of a trace; without graphs if nothing was captured.
pub fn capture_file(trace: &RankTrace, rank: Option<u32>) -> CaptureFile {
    let mut file = CaptureFile { file: trace.file.clone(), rank, ..CaptureFile::default() };
    if trace.stream_captures.is_empty() {
        return file;
    }
    let mut texts = Interner::default();
    let mut graphs = calls(trace);
    graphs.sort_by_key(|g| g.span.start);
    let rows: Vec<u32> = graphs.iter().flat_map(|g| g.rows.iter().map(|(row, _)| *row)).collect();
    let operators = CapturedOperators::new(trace, &rows);
    for graph in graphs {
        let name = graph.name(trace);
        let call = |(row, kind): &(u32, CallKind)| CapturedCall {
            kind: match kind {
                CallKind::Launch => NodeKind::Kernel,
                CallKind::Set => NodeKind::Set,
                CallKind::Copy(to) => NodeKind::Copy(to.map(|to| texts.intern(to))),
            },
            name: trace
                .columns
                .args
                .text(Arg::LaunchedKernel, *row)
                .filter(|_| *kind == CallKind::Launch)
                .map(|name| texts.intern(trace.text(name))),
            operator: operators.around(*row),
        };
        let calls = graph.rows.iter().map(call).collect();
        file.graphs.push(CapturedGraph {
            name: name.map(|n| texts.intern(n)),
            padded_batch: name.and_then(padded_batch),
            calls,
        });
    }
    file.operators = operators.finish(&mut texts);
    file.texts = texts.finish();
    file
}

/// What a call does on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallKind {
    Launch,
    /// With the direction, where recorded.
    Copy(Option<&'static str>),
    Set,
}

/// One capture: its thread, its time, and the calls that it records in order of time.
struct RecordedCapture {
    lane: u32,
    span: Span,
    rows: Vec<(u32, CallKind)>,
}

impl RecordedCapture {
    /// Name of the innermost range of its thread around it.
    fn name<'a>(&self, trace: &'a RankTrace) -> Option<&'a str> {
        let c = &trace.columns;
        let of_lane = trace.host_rows_of(self.lane)?;
        let holds = |row: &&u32| {
            let span = trace.span(**row);
            trace.classes.get(**row as usize) == Some(&Class::Annotation)
                && span.start <= self.span.start
                && span.end >= self.span.end.min(trace.recorded.end)
        };
        // Rows are in order, outer first.
        let innermost =
            of_lane.iter().take_while(|r| c.ts[**r as usize] <= self.span.start).filter(holds).last();
        innermost.map(|row| trace.name(*row))
    }
}

/// The calls of each capture.
fn calls(trace: &RankTrace) -> Vec<RecordedCapture> {
    let c = &trace.columns;
    let mut by_lane: BTreeMap<u32, Vec<u32>> =
        trace.stream_captures.iter().map(|(lane, _)| (lane, Vec::new())).collect();
    for row in (0..c.len() as u32).filter(|r| trace.classes.get(*r as usize) == Some(&Class::Runtime)) {
        if let Some(rows) = by_lane.get_mut(&c.lane[row as usize]) {
            rows.push(row);
        }
    }
    let mut out = Vec::new();
    for (lane, spans) in trace.stream_captures.iter() {
        let Some(mut rows) = by_lane.remove(&lane) else { continue };
        rows.sort_by_key(|r| (c.ts[*r as usize], std::cmp::Reverse(c.dur[*r as usize]), *r));
        for span in spans {
            let first = rows.partition_point(|r| c.ts[*r as usize] < span.start);
            let inside = rows.iter().skip(first).take_while(|r| c.ts[**r as usize] < span.end);
            let mut graph = RecordedCapture { lane, span: *span, rows: Vec::new() };
            let mut until = span.start;
            for &row in inside {
                let Some(kind) = call_kind(trace, row) else { continue };
                // A call inside another one does the same work, such as a driver call below one of the
                // runtime.
                let is_inside = trace.span(row).end <= until && !trace.span(row).is_empty();
                if !is_inside && trace.launches().of(row).is_empty() {
                    until = trace.span(row).end;
                    graph.rows.push((row, kind));
                }
            }
            out.push(graph);
        }
    }
    out
}

/// What a call does on a device; `None` if nothing, or if it launches another graph.
fn call_kind(trace: &RankTrace, row: u32) -> Option<CallKind> {
    let name = trace.name(row);
    let lower = name.to_ascii_lowercase();
    let args = &trace.columns.args;
    let does_nothing = || args.int(Arg::CopySize, row) == Some(0);
    if lower.contains("memset") {
        return (!does_nothing()).then_some(CallKind::Set);
    }
    if lower.contains("memcpy") {
        // As HIP counts the directions of copies.
        let direction = match args.text(Arg::Kind, row).map(|t| trace.text(t)) {
            Some("0") => Some("HtoH"),
            Some("1") => Some("HtoD"),
            Some("2") => Some("DtoH"),
            Some("3") => Some("DtoD"),
            _ => None,
        };
        return (!does_nothing()).then_some(CallKind::Copy(direction));
    }
    (is_launch_call(name) && !is_graph_launch(name)).then_some(CallKind::Launch)
}

/// The operators around captured calls, and those around them.
struct CapturedOperators<'a> {
    trace: &'a RankTrace,
    calls: CallForest<'a>,
    modules: Arc<InModules>,
    lines: Arc<Lines>,
    works: Arc<CountedWorks>,
    /// Index by position in the forest.
    index: HashMap<u32, u32>,
    /// Positions, outer before inner.
    positions: Vec<u32>,
}

impl<'a> CapturedOperators<'a> {
    fn new(trace: &'a RankTrace, rows: &[u32]) -> Self {
        let calls = CallForest::new(trace);
        let mut found: BTreeSet<u32> = BTreeSet::new();
        for &row in rows {
            let mut at = calls.forest.position(row).and_then(|p| calls.op(p));
            // Everything further out is known already if this one is.
            while let Some(op) = at.filter(|op| found.insert(*op)) {
                at = calls.forest.parent(op).and_then(|up| calls.op(up));
            }
        }
        let modules = InModules::shared(&calls);
        let (lines, works) = (Lines::of(trace), CountedWorks::of(trace));
        // Positions are in order of depth first, so an operator precedes what it contains.
        let positions: Vec<u32> = found.into_iter().collect();
        let index = positions.iter().zip(0..).map(|(p, i)| (*p, i)).collect();
        Self { trace, calls, modules, lines, works, index, positions }
    }

    /// The innermost operator around a call.
    fn around(&self, row: u32) -> Option<u32> {
        let position = self.calls.forest.position(row)?;
        self.index.get(&self.calls.op(position)?).copied()
    }

    fn finish(&self, texts: &mut Interner) -> Vec<CapturedOperator> {
        let (trace, calls) = (self.trace, &self.calls);
        let c = &trace.columns;
        let rows: Vec<u32> = self.positions.iter().map(|p| calls.row(*p)).collect();
        let frames = around(trace, &rows, Class::Python);
        let mut out: Vec<CapturedOperator> = Vec::new();
        for ((&position, &row), frame) in self.positions.iter().zip(&rows).zip(frames) {
            let outer = calls.forest.parent(position).and_then(|up| calls.op(up));
            let inputs = [Arg::InputDims, Arg::InputType, Arg::InputStrides, Arg::ConcreteInputs]
                .map(|arg| c.args.text(arg, row).map(|t| trace.text(t)));
            let module = self.modules.of(position).map(|m| self.modules.modules.path(trace, m));
            let stack = frame.map(|frame| {
                trace.stacks.outward(frame).take(FRAMES).map(|f| trace.name(f)).collect::<Vec<_>>().join(";")
            });
            let site = self.lines.site(self.lines.at(c.lane[row as usize], c.ts[row as usize]));
            let line = (site.level != LineLevel::None).then(|| site.text());
            out.push(CapturedOperator {
                name: texts.intern(trace.name(row)),
                outer: outer.and_then(|p| self.index.get(&p)).copied(),
                inputs: inputs.map(|text| text.map(|t| texts.intern(t))),
                module: module.map(|m| texts.intern(&m)),
                layer: None,
                stack: stack.map(|s| texts.intern(&s)),
                line: line.map(|l| texts.intern(&l)),
                counts: self.works.at(row).is_some(),
            });
        }
        let paths: Vec<Option<String>> =
            out.iter().map(|o| o.module.map(|m| texts.get(m).to_string())).collect();
        for (operator, layer) in out.iter_mut().zip(layers(&paths)) {
            operator.layer = layer;
        }
        out
    }
}

/// For each path of modules the number of its innermost layer: a module named as one that occurs with several
/// numbers.
///
/// ```text
///   Model_0/DecoderLayer_7/MLP_7/Linear_28      7: `DecoderLayer` occurs with several numbers
///   Model_0/Block_0/Linear_1                    null, if there is only this block
/// ```
fn layers(paths: &[Option<String>]) -> Vec<Option<u32>> {
    let numbered = |part: &str| -> Option<(String, u32)> {
        let (class, number) = part.rsplit_once('_')?;
        let is_layer = ["layer", "block"].iter().any(|end| class.to_ascii_lowercase().ends_with(end));
        Some((class.to_string(), number.parse().ok()?)).filter(|_| is_layer)
    };
    let mut numbers: HashMap<String, BTreeSet<u32>> = HashMap::new();
    for part in paths.iter().flatten().flat_map(|p| p.split('/')) {
        if let Some((class, number)) = numbered(part) {
            numbers.entry(class).or_default().insert(number);
        }
    }
    let repeats = |class: &String| numbers.get(class).is_some_and(|of| of.len() > 1);
    let innermost = |path: &String| {
        path.rsplit('/').filter_map(numbered).find(|(class, _)| repeats(class)).map(|(_, number)| number)
    };
    paths.iter().map(|path| path.as_ref().and_then(innermost)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_is_the_innermost_module_that_is_numbered_as_one_of_several() {
        let paths = [
            Some("Model_0/DecoderLayer_7/MLP_7/Linear_28".to_string()),
            Some("Model_0/DecoderLayer_8".to_string()),
            Some("Model_0/Block_0/Linear_1".to_string()),
            None,
        ];
        assert_eq!(layers(&paths), [Some(7), Some(8), None, None]);
    }
}
