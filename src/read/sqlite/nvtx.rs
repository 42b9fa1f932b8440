//! What the text of an NVTX range stands for.
//!
//! PyTorch marks operators (`marked_operator`), and PyProf's markers are Python dicts. Everything else is an
//! annotation.

use super::pyprof_marker::{DamagedMarker, MarkedCall, PyProfMarker, marker};
use crate::marked_operator::{MarkedOperator, operator};

/// What a text stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning<'a> {
    Operator(MarkedOperator<'a>),
    /// A function of Python that PyProf marked.
    Call(MarkedCall),
    /// The call stack of what is inside, innermost first, joined by `;`.
    Stack(String),
    /// A module, which is an annotation with this name.
    Module(String),
    Annotation(&'a str),
    /// A marker of PyProf that cannot be read.
    Damaged,
}

pub(crate) fn meaning(text: &str) -> Meaning<'_> {
    match marker(text) {
        Some(Ok(PyProfMarker::Call(call))) => Meaning::Call(call),
        Some(Ok(PyProfMarker::Stack(frames))) => Meaning::Stack(frames),
        Some(Ok(PyProfMarker::Module(name))) => Meaning::Module(name),
        Some(Err(DamagedMarker)) => Meaning::Damaged,
        None => operator(text).map_or(Meaning::Annotation(text), Meaning::Operator),
    }
}
