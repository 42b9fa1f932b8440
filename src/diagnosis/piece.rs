//! A piece of a device's lost time, and the code it is in.

use crate::CauseKind;
use hta_base::units::Span;
use hta_facts::lines::CodePlace;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

/// A piece of lost time with its owner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LostPiece {
    pub(crate) span: Span,
    pub(crate) kind: CauseKind,
    pub(crate) key: StrId,
    pub(crate) detail: StrId,
    pub(crate) place: CodePlace,
    /// Event of the host for code outside operators, call of a copy; `u32::MAX` otherwise.
    pub(crate) row: u32,
}

impl LostPiece {
    /// Time that nothing explains.
    pub(crate) fn unexplained(span: Span) -> Self {
        let none = StrId::EMPTY;
        Self {
            span,
            kind: CauseKind::NotExplained,
            key: none,
            detail: none,
            place: CodePlace::default(),
            row: u32::MAX,
        }
    }
}

/// The nearest Python frame with a file and line around an event.
pub(crate) fn frame_of(trace: &RankTrace, row: u32) -> StrId {
    let has_line = |r: &u32| trace.classes[*r as usize] == Class::Python && trace.name(*r).contains(".py(");
    let frame = if row == u32::MAX { None } else { trace.stacks.outward(row).find(has_line) };
    frame.map_or(StrId::EMPTY, |r| trace.columns.name(r as usize))
}
