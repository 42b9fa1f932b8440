//! The moment that `--at` chooses.

use crate::read::snapshot::Entry;

/// When the content is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Moment {
    #[default]
    Peak,
    End,
    /// After an entry (of a timeline: a row).
    Entry(u32),
    /// After the last entry up to a time, ns since the epoch.
    Time(i64),
}

impl Moment {
    /// Reads `peak`, `end`, `entry:N` or a time in ns.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = |t: &str| t.parse::<i64>().ok().filter(|n| *n >= 0);
        match text {
            "peak" => Ok(Self::Peak),
            "end" => Ok(Self::End),
            _ => match text.strip_prefix("entry:") {
                Some(n) => number(n).and_then(|n| u32::try_from(n).ok()).map(Self::Entry),
                None => number(text).map(Self::Time),
            }
            .ok_or_else(|| "expected peak, end, entry:N or nanoseconds since the epoch".to_string()),
        }
    }

    /// As in column `at`.
    pub fn name(self) -> String {
        match self {
            Self::Peak => "peak".to_string(),
            Self::End => "end".to_string(),
            Self::Entry(seq) => format!("entry:{seq}"),
            Self::Time(ns) => ns.to_string(),
        }
    }

    /// The entry after which it is: `Some(None)` is before the first. `None` if the history has no such moment.
    pub fn seq<'a>(self, peak: Option<u32>, entries: impl Iterator<Item = &'a Entry>) -> Option<Option<u32>> {
        let all = (0u32..).zip(entries);
        match self {
            Self::Peak => Some(peak),
            Self::End => Some(all.map(|(seq, _)| seq).last()),
            Self::Entry(seq) => (all.count() as u64 > u64::from(seq)).then_some(Some(seq)),
            Self::Time(ns) => {
                let mut last = None;
                let mut has_time = false;
                for (seq, entry) in all {
                    let Some(time) = entry.time_us() else { continue };
                    has_time = true;
                    if time.saturating_mul(1000) > ns {
                        break;
                    }
                    last = Some(seq);
                }
                has_time.then_some(last)
            }
        }
    }
}
