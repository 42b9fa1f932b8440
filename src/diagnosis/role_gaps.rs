//! Idle time of a rank between its phases in a loop of several roles: not the host delays it, other roles
//! work.
//!
//! ```text
//!   trainer    [score][train]..................[score][train]      a long gap: engines generate
//!                     ^ a short one: its own host
//! ```

use crate::CauseKind;
use crate::piece::LostPiece;
use hta_base::units::{Ns, Span};
use hta_facts::role_phases::RolePhases;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;

/// Share of the longest gap between phases from which a gap is the wait for another role, percent.
const LONG_PCT: i128 = 10;

/// Cuts idle time, which is in order, at the phases of the rank, and gives what lies in long gaps between
/// them to the wait for other roles. Of a rank that does all phases of its loop itself nothing changes.
pub(crate) fn by_role(trace: &RankTrace, idle: Vec<LostPiece>) -> Vec<LostPiece> {
    let phases = RolePhases::of(trace);
    if !(trace.meta.role.is_some() && !phases.all.is_empty() || phases.is_one_sided()) {
        return idle;
    }
    let gaps = long_gaps(&phases, trace.capture);
    let mut out = Vec::with_capacity(idle.len());
    for piece in idle {
        let mut at = piece.span.start;
        let first = gaps.partition_point(|gap| gap.end <= at);
        for gap in gaps.iter().skip(first).take_while(|gap| gap.start < piece.span.end) {
            let inside = gap.intersect(Span::new(at, piece.span.end));
            if inside.start > at {
                out.push(LostPiece { span: Span::new(at, inside.start), ..piece });
            }
            out.push(LostPiece { kind: CauseKind::RoleWait, ..LostPiece::unexplained(inside) });
            at = inside.end;
        }
        if piece.span.end > at {
            out.push(LostPiece { span: Span::new(at, piece.span.end), ..piece });
        }
    }
    out
}

/// The gaps between phases that are not much shorter than the longest.
fn long_gaps(phases: &RolePhases, capture: Span) -> Vec<Span> {
    let mut gaps = Union::new(phases.all.iter().map(|p| p.span)).gaps_in(capture);
    let longest: Ns = gaps.iter().map(|gap| gap.len()).max().unwrap_or(0);
    gaps.retain(|gap| i128::from(gap.len()) * 100 >= i128::from(longest) * LONG_PCT);
    gaps
}
