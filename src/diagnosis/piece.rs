//! A piece of a device's lost time.

use crate::diagnosis::kind::CauseKind;
use crate::trace::strings::StrId;
use crate::units::Span;

/// A piece of lost time with its owner.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    pub span: Span,
    pub kind: CauseKind,
    pub key: StrId,
    pub detail: StrId,
    /// Event of the host, for code outside operators; `u32::MAX` otherwise.
    pub row: u32,
}
