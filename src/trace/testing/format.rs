//! How a trace is written down: which generation of Kineto, which order, which of its known
//! defects.
//!
//! Every field changes the text of a file and none changes what the trace says, except
//! `Era::Microseconds`, which cuts times to whole microseconds as Kineto did then. So one built
//! trace, written in all formats, must give one answer.

/// Options of writing; start from `Format::default()` and change what a test is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// Generation of the time format.
    pub era: Era,
    /// Where `baseTimeNanoseconds` stands (only in `Era::Base`).
    pub base: Side,
    /// Where the other top-level keys stand.
    pub metadata: Placement,
    /// Object with `traceEvents`, or a bare list of events.
    pub root: Root,
    /// White space.
    pub layout: Layout,
    /// Spelling of categories.
    pub categories: Categories,
    /// Process and thread ids as numbers or as text.
    pub ids: Ids,
    /// `ts` and `dur` as numbers or as text.
    pub times: Times,
    /// How the fraction of a microsecond is written.
    pub fraction: Fraction,
    /// What `External id` means on launches and device rows.
    pub external_ids: ExternalIds,
    /// Write events in a random but repeatable order; those that start together stay in order.
    pub shuffle: Option<u64>,
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
    /// All of them, for tests that must hold for each.
    pub const ALL: [Era; 3] = [Era::Microseconds, Era::Decimal, Era::Base];
}

/// Before or after the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Before `traceEvents`.
    #[default]
    Before,
    /// After `traceEvents`.
    After,
}

/// Where the top-level keys stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// All before the events.
    #[default]
    Before,
    /// All after the events.
    After,
    /// `schemaVersion` and `deviceProperties` before, the rest (so also the rank) after.
    Both,
}

/// What the outermost JSON value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Root {
    /// `{"traceEvents": [...], ...}`
    #[default]
    Object,
    /// `[...]`: there is no place for metadata, it is left out.
    Array,
}

/// White space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Several lines an event, as Kineto writes.
    #[default]
    Pretty,
    /// No white space at all.
    Compact,
}

/// Spelling of categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Categories {
    /// `kernel`, `cpu_op`, `gpu_memcpy`, ...
    #[default]
    Current,
    /// 2021 and 2022: `Kernel`, `Operator`, `Memcpy`, ...; annotations are `Operator` too;
    /// `external id` in lower case.
    Legacy,
}

/// Process and thread ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ids {
    /// Numbers.
    #[default]
    Numbers,
    /// Text; a device row's thread is then "stream 7".
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
pub enum Fraction {
    /// Three digits: 5 ns is `.005`, 120 ns is `.120`.
    #[default]
    Padded,
    /// As after a tool has parsed and rewritten the file: 120 ns is `.12`, 0 ns is `.0`.
    Shortened,
    /// The Kineto defect of spring 2024: 5 ns is `.5`, 120 ns is `.120`.
    Unpadded,
}

/// What `External id` holds on launches and device rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExternalIds {
    /// The id of the innermost operator around the launch.
    #[default]
    Operator,
    /// A copy of the correlation id: the trap of many torch versions.
    Correlation,
    /// No such argument.
    Absent,
}
