//! Patterns: kernel sequences that repeat on a stream and under operators, which could be fused or captured
//! as a CUDA graph.

mod names;
mod operators;
mod report;
mod stream;
pub mod tables;

pub use names::glob;

use crate::api::{About, Analysis, Options, Partial, RowEmitter};
use crate::settings::{Setting, ValueType};
use hta_job::recording::capability::Capability;
use hta_trace::rank_trace::RankTrace;
use tables::{OperatorSequences, RepeatsTable};

pub const OP: Setting = Setting {
    stem: "patterns",
    flag: "--op",
    value: "NAME",
    help: "Operator of operator_sequences, by its exact name; default: the outermost operators",
    kind: ValueType::Text,
};

pub(crate) const OP_GLOB: Setting = Setting {
    stem: "patterns",
    flag: "--op-glob",
    value: "GLOB",
    help: "Operators of operator_sequences; * stands for any text, ? for any character",
    kind: ValueType::Text,
};

pub const MIN_LENGTH: Setting = Setting {
    stem: "patterns",
    flag: "--min-length",
    value: "N",
    help: "Least kernels in a pattern; does not limit operator_sequences unless given",
    kind: ValueType::Count { default: 3, min: 1 },
};

const MIN_COUNT: Setting = Setting {
    stem: "patterns",
    flag: "--min-count",
    value: "N",
    help: "Least occurrences of a repeat",
    kind: ValueType::Count { default: 3, min: 2 },
};

const RANK_BY: Setting = Setting {
    stem: "patterns",
    flag: "--rank-by",
    value: "KEY",
    help: "Order of repeats: by GPU time, or by the gaps inside (which fusing or a graph can save)",
    kind: ValueType::Choice(&["gpu", "gaps"]),
};

const BY: Setting = Setting {
    stem: "patterns",
    flag: "--by",
    value: "KEYS",
    help: "What distinguishes kernels in addition to their names: shape (grid and block)",
    kind: ValueType::Choices(&["shape"]),
};

pub struct Patterns;

impl Analysis for Patterns {
    fn about(&self) -> About {
        About {
            stem: "patterns",
            title: "kernel sequences that repeat, and their gaps and launches",
            explain: include_str!("page.md"),
            tables: &[
                RepeatsTable::SPEC,
                tables::TopRepeats::SPEC,
                OperatorSequences::SPEC,
                operators::TopSequences::SPEC,
            ],
            views: &report::VIEWS,
            settings: &[OP, OP_GLOB, MIN_LENGTH, MIN_COUNT, RANK_BY, BY],
            is_long: true,
            takes_steps: false,
            needs: &[Capability::DeviceTime],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let repeats = tables::repeats(trace, options, give);
        let sequences = operators::sequences(trace, options, give);
        let reason = if trace.is_cpu_only() {
            Some("no GPU activity")
        } else if repeats.rows + sequences.rows == 0 {
            Some("nothing repeats, and no launch lies under the operators asked for")
        } else {
            None
        };
        Partial { rank: trace.rank, tables: vec![repeats.top, sequences.top], reason }
    }
}
