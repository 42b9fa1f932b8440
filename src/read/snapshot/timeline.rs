//! Memory timelines of `torch.profiler`: what `export_memory_timeline` writes as `*.raw.json.gz` and
//! `*.json`.
//!
//! The raw form is a list of `[time ns, action, bytes, category]`; the other is `[times us, sizes]`, where a
//! row of sizes is a 0 and the bytes of the eight categories. Neither names its device.

use super::bytes::PickleBytes;
use super::error::Problem;
use crate::room::{MemoryGate, MemoryUse};
use crate::source::Source;
use hta_base::health::Counter;
use hta_trace::memory_timeline::{CATEGORIES, MemoryTimeline, MemoryTimelineRow, Sizes, TimelineAction};

/// Whether a file that begins with these bytes is a memory timeline: a list of lists of numbers.
pub fn is_timeline(head: &[u8]) -> bool {
    let mut rest = head.iter().copied().filter(|b| !b.is_ascii_whitespace());
    if (rest.next(), rest.next()) != (Some(b'['), Some(b'[')) {
        return false;
    }
    let mut inner = rest.take_while(|b| *b != b']').peekable();
    inner.peek().is_some_and(|b| b.is_ascii_digit() || *b == b'-')
        && inner.all(|b| b.is_ascii_digit() || matches!(b, b',' | b'-' | b'.' | b'e' | b'E' | b'+'))
}

/// Deepest nesting of lists: `[times, [[..]]]`.
const DEEPEST: usize = 3;

/// Number of tokens after which the memory is checked.
const CHECKED: u64 = 1 << 8;

/// Longest number, bytes.
const LONGEST: usize = 40;

/// Largest level, so that sums do not overflow.
const LARGEST_LEVEL: i64 = 1 << 61;

/// Reads a timeline from a stream.
///
/// # Errors
/// When it is no memory timeline, or takes more memory than `room` gives.
pub fn read_timeline(source: Box<dyn Source>, room: &dyn MemoryGate) -> Result<MemoryTimeline, Problem> {
    let reader = Reader {
        tokens: ListTokens { bytes: PickleBytes::new(source), ahead: None },
        room,
        timeline: MemoryTimeline::default(),
        first: Vec::new(),
        is_raw: None,
        size_rows: 0,
        levels: [0; 8],
        sum: 0,
    };
    reader.run()
}

/// A number as it is written, and as an integer.
type WrittenNumber = (f64, i64);

enum ListToken {
    Open,
    Close,
    Number(WrittenNumber),
    End,
}

/// The tokens of lists of numbers.
struct ListTokens {
    bytes: PickleBytes,
    /// The byte behind a number.
    ahead: Option<u8>,
}

impl ListTokens {
    fn next(&mut self) -> Result<ListToken, Problem> {
        let mut text: Vec<u8> = Vec::new();
        loop {
            let at = self.bytes.offset();
            let byte = match self.ahead.take() {
                Some(byte) => Some(byte),
                None => self.bytes.next()?,
            };
            match byte {
                Some(b) if b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E') => {
                    text.push(b);
                    if text.len() > LONGEST {
                        return Err(malformed("a number", "one that is too long", at));
                    }
                }
                _ if !text.is_empty() => {
                    self.ahead = byte;
                    let text = std::str::from_utf8(&text).unwrap_or_default();
                    let value: f64 = text.parse().map_err(|_| malformed("a number", text, at))?;
                    return Ok(ListToken::Number((value, text.parse().unwrap_or(value.round() as i64))));
                }
                Some(b'[') => return Ok(ListToken::Open),
                Some(b']') => return Ok(ListToken::Close),
                Some(b',') => {}
                Some(b) if b.is_ascii_whitespace() => {}
                Some(b) => {
                    return Err(malformed(
                        "lists of numbers",
                        format!("`{}`", (b as char).escape_default()),
                        at,
                    ));
                }
                None => return Ok(ListToken::End),
            }
        }
    }
}

struct Reader<'a> {
    tokens: ListTokens,
    room: &'a dyn MemoryGate,
    timeline: MemoryTimeline,
    /// The first inner list: a row, or all times. What follows tells.
    first: Vec<WrittenNumber>,
    is_raw: Option<bool>,
    size_rows: usize,
    /// The sizes of the row before.
    levels: Sizes,
    /// Sum of the absolute changes.
    sum: i64,
}

impl Reader<'_> {
    fn run(mut self) -> Result<MemoryTimeline, Problem> {
        let (mut depth, mut lists, mut tokens) = (0, 0u64, 0u64);
        let mut list: Vec<WrittenNumber> = Vec::new();
        loop {
            let token = self.tokens.next()?;
            let at = self.tokens.bytes.offset();
            tokens += 1;
            if tokens.is_multiple_of(CHECKED) {
                self.check_memory(list.len())?;
            }
            self.timeline.unpacked_bytes = at;
            match token {
                ListToken::Number(n) if depth == 2 || depth == 3 => list.push(n),
                ListToken::Number(_) => {
                    return Err(malformed("lists of numbers", "a number beside them", at));
                }
                ListToken::Open => {
                    depth += 1;
                    if depth > DEEPEST || !list.is_empty() {
                        return Err(malformed("a memory timeline", "lists inside each other", at));
                    }
                    if depth == 3 && (self.is_raw == Some(true) || lists != 1) && self.is_raw != Some(false) {
                        return Err(malformed("a memory timeline", "lists inside each other", at));
                    }
                    if depth == 3 {
                        self.is_raw = Some(false);
                    }
                }
                ListToken::Close if depth == 3 => {
                    self.sizes(&std::mem::take(&mut list), at)?;
                    depth = 2;
                }
                ListToken::Close if depth == 2 => {
                    if lists == 0 {
                        self.first = std::mem::take(&mut list);
                    } else if self.is_raw != Some(false) {
                        self.take_first(at)?;
                        self.row(&std::mem::take(&mut list), at)?;
                    }
                    lists += 1;
                    depth = 1;
                }
                ListToken::Close if depth == 1 => {
                    self.take_first(at)?;
                    return Ok(self.timeline);
                }
                ListToken::Close => return Err(malformed("a memory timeline", "`]`", at)),
                ListToken::End => {
                    if self.tokens.bytes.damage.is_none() && lists < 2 {
                        return Err(Problem::Cut { expected: "rows of a memory timeline", byte: at });
                    }
                    if let Some(reason) = self.tokens.bytes.damage.take().filter(|_| lists < 2) {
                        return Err(Problem::Packed(reason));
                    }
                    self.timeline.health.add(Counter::SnapshotCut, 1, Some(at), "");
                    return Ok(self.timeline);
                }
            }
        }
    }

    fn check_memory(&self, list: usize) -> Result<(), Problem> {
        let numbers = (self.first.len() + list) * size_of::<WrittenNumber>();
        let held = self.timeline.rows.len() * size_of::<MemoryTimelineRow>() + numbers;
        Ok(self.room.hold(MemoryUse { buffers: held as u64, ..MemoryUse::default() })?)
    }

    /// The first list was a row.
    fn take_first(&mut self, at: u64) -> Result<(), Problem> {
        if self.is_raw.is_none() {
            self.is_raw = Some(true);
            let first = std::mem::take(&mut self.first);
            self.row(&first, at)?;
        }
        Ok(())
    }

    fn unusable(&mut self, at: u64) {
        self.timeline.health.hit(Counter::SnapshotValueUnusable, at);
    }

    /// Whether a change can be added without an overflow of the sums.
    fn fits(&mut self, delta: i64, at: u64) -> bool {
        let sum = self.sum.checked_add(delta.saturating_abs()).filter(|sum| *sum < LARGEST_LEVEL);
        match sum {
            Some(sum) => self.sum = sum,
            None => self.unusable(at),
        }
        sum.is_some()
    }

    /// A row `[time ns, action, bytes, category]`.
    fn row(&mut self, list: &[WrittenNumber], at: u64) -> Result<(), Problem> {
        let [(_, t), (_, action), (_, delta), (_, category)] = list else {
            return Err(malformed("rows of four numbers", format!("{}", list.len()), at));
        };
        let action = match action {
            1 => TimelineAction::Preexisting,
            2 => TimelineAction::Create,
            3 => TimelineAction::NewVersion,
            4 => TimelineAction::Destroy,
            _ => return Err(malformed("an action from 1 to 4", action.to_string(), at)),
        };
        let category = u8::try_from(*category).ok().filter(|c| usize::from(*c) < CATEGORIES.len());
        if category.is_none() {
            self.unusable(at);
        }
        if self.fits(*delta, at) {
            let ts_ns = (*t >= 0 && action != TimelineAction::Preexisting).then_some(*t);
            let category = category.unwrap_or(CATEGORIES.len() as u8 - 1);
            self.timeline.rows.push(MemoryTimelineRow { ts_ns, action, delta: *delta, category });
        }
        Ok(())
    }

    /// A row of sizes: a 0 and the level of each category.
    fn sizes(&mut self, list: &[WrittenNumber], at: u64) -> Result<(), Problem> {
        let Some((us, exact)) = self.first.get(self.size_rows).copied() else {
            return Err(malformed("as many times as rows of sizes", "more sizes", at));
        };
        self.size_rows += 1;
        let Some(levels) = list.get(1..).filter(|l| l.len() == CATEGORIES.len()) else {
            return Err(malformed("rows of nine sizes", format!("{}", list.len()), at));
        };
        let ts_ns = if us.fract() == 0.0 { exact.checked_mul(1000) } else { Some((us * 1e3).round() as i64) };
        for (category, (_, level)) in (0u8..).zip(levels) {
            let before = self.levels.get(usize::from(category)).copied().unwrap_or(0);
            let delta = level.saturating_sub(before);
            if delta != 0 && self.fits(delta, at) {
                self.timeline.rows.push(MemoryTimelineRow {
                    ts_ns,
                    action: TimelineAction::Level,
                    delta,
                    category,
                });
                if let Some(slot) = self.levels.get_mut(usize::from(category)) {
                    *slot = *level;
                }
            }
        }
        Ok(())
    }
}

fn malformed(expected: &'static str, found: impl Into<String>, byte: u64) -> Problem {
    Problem::Malformed { expected, found: found.into(), byte }
}
