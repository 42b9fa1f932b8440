//! How a trace is written: version of Kineto, order, and known defects.
//!
//! Every field changes the text of a file, but not the content of the trace (except `Era::Microseconds`,
//! which truncates times to whole microseconds, as Kineto did then). So one trace written in all formats must
//! give the same answer.

/// Options for writing; start from `Format::default()` and change what a test is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// Generation of the time format.
    pub era: Era,
    /// Position of `baseTimeNanoseconds` (only in `Era::Base`).
    pub base: MetadataSide,
    /// Position of the other top-level keys.
    pub metadata: Placement,
    /// Object with `traceEvents`, or a bare list of events.
    pub root: Root,
    /// White space.
    pub layout: WhiteSpace,
    /// Spelling of categories.
    pub categories: CategorySpelling,
    /// Process and thread ids as numbers or as text.
    pub ids: Ids,
    /// `ts` and `dur` as numbers or as text.
    pub times: Times,
    /// How the fraction of a microsecond is written.
    pub fraction: FractionStyle,
    /// Meaning of `External id` on launches and device rows.
    pub external_ids: ExternalIds,
    /// Which recorder of torch.profiler writes the file.
    pub recorder: TestRecorder,
    /// Write events in a pseudo-random order with this seed; events that start together stay in order.
    pub shuffle: Option<u64>,
}

/// The recorder of CUDA activities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TestRecorder {
    /// Kineto.
    #[default]
    Kineto,
    /// Cuspy, since torch 2.14: no `External id` and no occupancy on device rows, kinds of copies as
    /// arguments. Two of its signs are needed to be recognised: copies, kernels, nodes of graphs.
    Cuspy,
}

/// Generation of the time format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Era {
    /// E1, to spring 2024: whole microseconds since the Unix epoch.
    Microseconds,
    /// E2, spring 2024: microseconds with a fraction, since the Unix epoch.
    Decimal,
    /// E3, today: microseconds with a fraction, after `baseTimeNanoseconds`.
    #[default]
    Base,
}

impl Era {
    /// All variants, for tests that must hold for each.
    pub const ALL: [Era; 3] = [Era::Microseconds, Era::Decimal, Era::Base];
}

/// Position relative to the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetadataSide {
    /// Before `traceEvents`.
    #[default]
    Before,
    /// After `traceEvents`.
    After,
}

/// Position of the top-level keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// All before the events.
    #[default]
    Before,
    /// All after the events.
    After,
    /// `schemaVersion` and `deviceProperties` before, the rest (including the rank) after.
    Both,
}

/// The outermost JSON value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Root {
    /// `{"traceEvents": [...], ...}`
    #[default]
    Object,
    /// `[...]`: has no place for metadata, which is left out.
    Array,
}

/// White space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhiteSpace {
    /// Several lines per event, as Kineto writes.
    #[default]
    Pretty,
    /// No white space at all.
    Compact,
}

/// Spelling of categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CategorySpelling {
    /// `kernel`, `cpu_op`, `gpu_memcpy`, ...
    #[default]
    Current,
    /// 2021 and 2022: `Kernel`, `Operator`, `Memcpy`, ...; annotations are `Operator`, too; `external id` in
    /// lower case.
    Legacy,
}

/// Process and thread ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ids {
    /// Numbers.
    #[default]
    Numbers,
    /// Text; the thread of a device row is then "stream 7".
    Text,
}

/// `ts` and `dur`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// JSON numbers.
    #[default]
    Numbers,
    /// JSON strings.
    Text,
}

/// How the fraction of a microsecond is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FractionStyle {
    /// Three digits: 5 ns is `.005`, 120 ns is `.120`.
    #[default]
    Padded,
    /// As after a tool has parsed and rewritten the file: 120 ns is `.12`, 0 ns is `.0`.
    Shortened,
    /// The Kineto defect of spring 2024: 5 ns is `.5`, 120 ns is `.120`.
    Unpadded,
}

/// The value of `External id` on launches and device rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExternalIds {
    /// The id of the innermost operator around the launch.
    #[default]
    Operator,
    /// A copy of the correlation id, as in many versions of torch.
    Correlation,
    /// No such argument.
    Absent,
}
