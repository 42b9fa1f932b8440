//! Idle time in which a stream waits for a callback on the host.
//!
//! ```text
//!   stream 7   [kernel][== callback ==].[kernel]     the callback holds up what follows on its stream
//!   assigned            CCCCCCCCCCCCCC -             what it does not cover stays without a cause
//! ```

use crate::CauseKind;
use crate::piece::LostPiece;
use hta_base::units::Span;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::collections::BTreeMap;

/// Category of callbacks in CUDA graphs.
const CALLBACK: &str = "graph_host_node";

/// Cuts idle time of a device that nothing explains at the callbacks of the stream on which it ends, and
/// gives what they cover to them.
pub(crate) fn by_callback(trace: &RankTrace, work: &DeviceWork, idle: Vec<LostPiece>) -> Vec<LostPiece> {
    let of_stream = callbacks(trace, work);
    if of_stream.is_empty() {
        return idle;
    }
    let mut out = Vec::with_capacity(idle.len());
    for piece in idle {
        let waiting = Some(&piece).filter(|p| p.kind == CauseKind::NotExplained);
        let stream = waiting.and_then(|p| stream_of_next(trace, work, p.span));
        let callbacks = stream.and_then(|stream| of_stream.get(&stream)).map_or(&[][..], Vec::as_slice);
        let mut at = piece.span.start;
        for (span, name) in callbacks {
            let inside = span.intersect(Span::new(at, piece.span.end));
            if inside.end <= inside.start {
                continue;
            }
            if inside.start > at {
                out.push(LostPiece { span: Span::new(at, inside.start), ..piece });
            }
            out.push(LostPiece { span: inside, kind: CauseKind::HostCallback, key: *name, ..piece });
            at = inside.end;
        }
        if piece.span.end > at {
            out.push(LostPiece { span: Span::new(at, piece.span.end), ..piece });
        }
    }
    out
}

/// The callbacks of a device by stream, in order of time.
fn callbacks(trace: &RankTrace, work: &DeviceWork) -> BTreeMap<i64, Vec<(Span, StrId)>> {
    let columns = &trace.columns;
    let mut of_stream: BTreeMap<i64, Vec<(Span, StrId)>> = BTreeMap::new();
    for (row, _) in (0u32..).zip(&trace.classes).filter(|(_, class)| **class == Class::Sync) {
        let at = row as usize;
        let category = columns.cat.get(at).and_then(|cat| columns.categories.get(usize::from(*cat)));
        let is_callback = category.is_some_and(|c| columns.strings.get(c.text) == CALLBACK);
        let stream = columns.args.int(Arg::Stream, row);
        if let Some(stream) =
            stream.filter(|_| is_callback && columns.args.int(Arg::Device, row) == work.device)
        {
            of_stream.entry(stream).or_default().push((trace.span(row), columns.name(at)));
        }
    }
    of_stream
        .values_mut()
        .for_each(|all| all.sort_unstable_by_key(|(span, name)| (span.start, span.end, *name)));
    of_stream
}

/// The stream of the activity that ends an idle time; `None` if none does.
fn stream_of_next(trace: &RankTrace, work: &DeviceWork, idle: Span) -> Option<i64> {
    let activity = |i: &u32| trace.activities.get(*i as usize);
    let from = work.activities.partition_point(|i| activity(i).is_some_and(|a| a.span.start < idle.end));
    activity(work.activities.get(from)?)?.stream()
}
