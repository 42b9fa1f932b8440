//! Idle time of iterations of an inference engine. What matters there is not how the host launches, because
//! kernels are replayed from graphs, but when the device idles:
//!
//! ```text
//!   host     [iteration  graph launch call ).......[iteration
//!   device      [=)......:.......[==)....[==)..........[==)
//!   idle          p p p  : l l l     ....    g g g g g g
//!
//!   p graph_preparation, l graph_launch, g iteration_gap, . as in other traces
//! ```

use crate::CauseKind;
use crate::piece::{LostPiece, frame_of};
use hta_base::units::Span;
use hta_facts::host_activity::HostNames;
use hta_facts::iterations::{Iterations, on_device};
use hta_facts::lines::CodePlaces;
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

/// Cuts idle time, which is in order, at the parts of iterations, and gives each part to its cause, but for
/// what a compiler takes.
pub(crate) fn by_part_of_iteration(
    trace: &RankTrace,
    work: &DeviceWork,
    idle: Vec<LostPiece>,
) -> Vec<LostPiece> {
    let iterations = Iterations::of(trace);
    let parts = parts(trace, work, &iterations);
    let names = HostNames::of(trace);
    let mut places = CodePlaces::new(trace);
    let mut out = Vec::with_capacity(idle.len());
    for piece in idle {
        if piece.kind == CauseKind::HostCompile {
            out.push(piece);
            continue;
        }
        let mut at = piece.span.start;
        let first = parts.partition_point(|(part, _)| part.end <= at);
        for (part, kind) in parts.iter().skip(first).take_while(|(part, _)| part.start < piece.span.end) {
            let inside = part.intersect(Span::new(at, piece.span.end));
            if inside.start > at {
                out.push(LostPiece { span: Span::new(at, inside.start), ..piece });
            }
            // What the engine's own thread does meanwhile is what the device waits for.
            names.each_use(trace, iterations.thread, inside, |used| {
                // The range of the iteration itself says nothing.
                let key = used.row.map(|r| trace.columns.name(r as usize));
                let key = key.filter(|name| !iterations.names.contains(name)).unwrap_or(StrId::EMPTY);
                let row = used.row.unwrap_or(u32::MAX);
                let (detail, place) = (frame_of(trace, row), places.of(row));
                out.push(LostPiece { span: used.span, kind: *kind, key, detail, place, row: u32::MAX });
            });
            at = inside.end;
        }
        if piece.span.end > at {
            out.push(LostPiece { span: Span::new(at, piece.span.end), ..piece });
        }
    }
    out
}

/// The parts of iterations that are causes of the idle time in them; disjoint and in order.
fn parts(trace: &RankTrace, work: &DeviceWork, iterations: &Iterations) -> Vec<(Span, CauseKind)> {
    let all = on_device(trace, work, iterations);
    let mut out = Vec::new();
    for (k, of) in all.iter().enumerate() {
        for (kind, rule) in CauseKind::all_lost() {
            out.extend((rule.of_iteration)(trace, of, all.get(k + 1)).into_iter().map(|part| (part, kind)));
        }
    }
    out.retain(|(part, _)| !part.is_empty());
    out.sort_by_key(|(part, _)| part.start);
    out
}
