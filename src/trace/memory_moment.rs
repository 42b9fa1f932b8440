//! The moment at which the content of memory is listed.

/// When the content is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryMoment {
    #[default]
    Peak,
    End,
    /// At the peak of the step with this number.
    Step(i64),
    /// After a record (of a snapshot: an entry; of a timeline: a row).
    Entry(u32),
    /// After the last record up to a time, ns: on the clock of the trace, or since the epoch.
    Time(i64),
}

impl MemoryMoment {
    /// What [`MemoryMoment::parse`] reads.
    pub const EXPECTED: &str = "peak, end, step:N, entry:N or a time in ns";

    /// `None` if the text is none of [`MemoryMoment::EXPECTED`].
    pub fn parse(text: &str) -> Option<Self> {
        let number = |t: &str| t.parse::<i64>().ok().filter(|n| *n >= 0);
        match (text, text.strip_prefix("entry:"), text.strip_prefix("step:")) {
            ("peak", ..) => Some(Self::Peak),
            ("end", ..) => Some(Self::End),
            (_, Some(n), _) => u32::try_from(number(n)?).ok().map(Self::Entry),
            (_, _, Some(n)) => number(n).map(Self::Step),
            _ => number(text).map(Self::Time),
        }
    }

    /// As in column `moment`.
    pub fn name(self) -> String {
        match self {
            Self::Peak => "peak".to_string(),
            Self::End => "end".to_string(),
            Self::Step(_) => "step".to_string(),
            Self::Entry(seq) => format!("entry:{seq}"),
            Self::Time(ns) => ns.to_string(),
        }
    }

    /// In a sentence, after "memory": `at the peak`.
    pub fn words(self) -> String {
        match self {
            Self::Peak => "at the peak".to_string(),
            Self::End => "at the end".to_string(),
            Self::Step(step) => format!("at the peak of step {step}"),
            Self::Entry(seq) => format!("after entry {seq}"),
            Self::Time(ns) => format!("at {ns} ns"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_written() {
        for (text, moment) in [
            ("peak", MemoryMoment::Peak),
            ("end", MemoryMoment::End),
            ("step:7", MemoryMoment::Step(7)),
            ("entry:12", MemoryMoment::Entry(12)),
            ("1700000000000000000", MemoryMoment::Time(1_700_000_000_000_000_000)),
        ] {
            assert_eq!(MemoryMoment::parse(text), Some(moment));
        }
        for bad in ["", "top", "-1", "entry:", "entry:4294967296", "step:-1", "1.5"] {
            assert_eq!(MemoryMoment::parse(bad), None, "{bad}");
        }
    }
}
