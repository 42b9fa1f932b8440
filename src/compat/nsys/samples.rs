//! What a rank leaves for a summary: the values of each key as distinct values with counts.

use hashbrown::HashMap;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

table! {
    /// The values of a summary's rows; their size depends on the number of keys and distinct values, not of
    /// events.
    pub(crate) struct Samples, SampleRow = "nsys_samples" by "keys, quantity, value" {
        rank;
        process: Option<Text>, "", "process";
        thread: Option<Text>, "", "thread";
        device;
        category: Option<Text>, "", "kind of operation, as nsys calls it";
        style: Option<Text>, "", "PushPop or StartEnd";
        grid: Option<Text>, "", "blocks: x y z";
        block: Option<Text>, "", "threads per block: x y z";
        name: Text, "", "call, kernel, operation or range";
        kernel: Option<Text>, "", "kernel of the call, or in the range";
        quantity: Text, "", "what the value is";
        value: i64, "", "ns, bytes or a number";
        count: u64, "", "how often it occurs";
    }
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Quantity {
    /// Duration of what the row is about, ns.
    Time,
    Bytes,
    /// Duration of the launching call, ns.
    Api,
    /// From the end of the call to the start of the kernel, ns.
    Queue,
    /// Duration of the kernel, ns.
    Kernel,
    /// Duration of the range on the host, ns.
    Range,
    /// GPU operations of a range.
    Operations,
    /// Ranges around a range.
    Level,
    /// Ranges directly inside a range.
    Children,
}

impl Quantity {
    const ALL: [Quantity; 9] = [
        Quantity::Time,
        Quantity::Bytes,
        Quantity::Api,
        Quantity::Queue,
        Quantity::Kernel,
        Quantity::Range,
        Quantity::Operations,
        Quantity::Level,
        Quantity::Children,
    ];

    fn name(self) -> &'static str {
        match self {
            Quantity::Time => "time",
            Quantity::Bytes => "bytes",
            Quantity::Api => "api",
            Quantity::Queue => "queue",
            Quantity::Kernel => "kernel",
            Quantity::Range => "range",
            Quantity::Operations => "operations",
            Quantity::Level => "level",
            Quantity::Children => "children",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|q| q.name() == name)
    }
}

/// A text of the trace, or of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SampleText {
    Recorded(StrId),
    Known(&'static str),
}

impl From<StrId> for SampleText {
    fn from(id: StrId) -> Self {
        Self::Recorded(id)
    }
}

impl From<&'static str> for SampleText {
    fn from(text: &'static str) -> Self {
        Self::Known(text)
    }
}

impl SampleText {
    fn text(self, trace: &RankTrace) -> &str {
        match self {
            SampleText::Recorded(id) => trace.text(id),
            SampleText::Known(text) => text,
        }
    }
}

/// What the rows of a summary are for; fields that a summary does not use are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SummaryKey<T> {
    pub(crate) process: Option<T>,
    pub(crate) thread: Option<T>,
    pub(crate) device: Option<i64>,
    pub(crate) category: Option<T>,
    pub(crate) style: Option<T>,
    pub(crate) grid: Option<T>,
    pub(crate) block: Option<T>,
    pub(crate) name: T,
    pub(crate) kernel: Option<T>,
}

impl<T> SummaryKey<T> {
    pub fn of(name: impl Into<T>) -> Self {
        Self {
            process: None,
            thread: None,
            device: None,
            category: None,
            style: None,
            grid: None,
            block: None,
            name: name.into(),
            kernel: None,
        }
    }
}

impl SummaryKey<SampleText> {
    fn text(self, trace: &RankTrace) -> SummaryKey<&str> {
        let text = |label: Option<SampleText>| label.map(|l| l.text(trace));
        SummaryKey {
            process: text(self.process),
            thread: text(self.thread),
            device: self.device,
            category: text(self.category),
            style: text(self.style),
            grid: text(self.grid),
            block: text(self.block),
            name: self.name.text(trace),
            kernel: text(self.kernel),
        }
    }
}

/// Collects the values of a rank.
#[derive(Debug, Default)]
pub(crate) struct Collector(HashMap<(SummaryKey<SampleText>, Quantity), Vec<i64>>);

impl Collector {
    pub(crate) fn add(&mut self, key: SummaryKey<SampleText>, quantity: Quantity, value: i64) {
        self.0.entry((key, quantity)).or_default().push(value);
    }

    /// The rows, in the order of their texts.
    pub(crate) fn finish(self, trace: &RankTrace) -> Batch {
        let mut all: Vec<_> =
            self.0.into_iter().map(|((key, q), values)| (key.text(trace), q, values)).collect();
        all.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        let mut table = Samples::default();
        for (key, quantity, mut values) in all {
            values.sort_unstable();
            for same in values.chunk_by(|a, b| a == b) {
                table.push(SampleRow {
                    rank: trace.rank,
                    process: key.process,
                    thread: key.thread,
                    device: key.device,
                    category: key.category,
                    style: key.style,
                    grid: key.grid,
                    block: key.block,
                    name: key.name,
                    kernel: key.kernel,
                    quantity: quantity.name(),
                    value: same.first().copied().unwrap_or_default(),
                    count: same.len() as u64,
                });
            }
        }
        table.finish()
    }
}

/// The key of a row.
pub(crate) fn key<'a>(row: &SampleRow<'a>) -> SummaryKey<&'a str> {
    SummaryKey {
        process: row.process,
        thread: row.thread,
        device: row.device,
        category: row.category,
        style: row.style,
        grid: row.grid,
        block: row.block,
        name: row.name,
        kernel: row.kernel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_found_by_their_names() {
        assert!(Quantity::ALL.into_iter().all(|q| Quantity::named(q.name()) == Some(q)));
        assert_eq!(Quantity::named("colour"), None);
    }
}
