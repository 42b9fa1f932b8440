//! A chunk of a pipeline: what one rank computes for one micro-batch in one stage.

use hta_base::stored_name;
use hta_base::units::{Ns, Span};

/// What a chunk computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChunkKind {
    Forward,
    /// The whole backward pass of a stage.
    Backward,
    /// The part of a backward pass that the stage before needs: gradients of the inputs.
    Input,
    /// The rest of a backward pass: gradients of the weights.
    Weight,
}

stored_name!(ChunkKind, ChunkKind::ALL, letter);

impl ChunkKind {
    pub(crate) const ALL: [ChunkKind; 4] =
        [ChunkKind::Forward, ChunkKind::Backward, ChunkKind::Input, ChunkKind::Weight];

    /// The letter that people use in schedules, and the tables.
    pub fn letter(self) -> &'static str {
        match self {
            ChunkKind::Forward => "F",
            ChunkKind::Backward => "B",
            ChunkKind::Input => "I",
            ChunkKind::Weight => "W",
        }
    }

    pub fn of_letter(letter: &str) -> Option<ChunkKind> {
        ChunkKind::ALL.into_iter().find(|k| k.letter() == letter)
    }
}

/// What a chunk is called in its schedule, as far as the recording names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkName {
    pub kind: ChunkKind,
    pub stage: Option<u32>,
    pub batch: Option<u32>,
}

/// One chunk of a rank, on the rank's own clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineChunk {
    /// When its first work was submitted.
    pub submit: Ns,
    /// From the start of its first to the end of its last work: kernels of a device, else operators.
    pub span: Span,
    pub name: ChunkName,
    /// The backward chunk that runs at the same time, in schedules that overlap two.
    pub with: Option<ChunkName>,
    /// Index of the step.
    pub step: Option<u32>,
    /// Time inside in which the device does nothing, ns.
    pub idle: Ns,
    /// Number of kernels, or of operators.
    pub work_count: u32,
    /// Whether an annotation names it; else it is a run of work of one direction between messages.
    pub is_named: bool,
}
