//! Converts one event from its bytes to a row of columns, in one pass.
//!
//! Keys come in any order, so an event's tokens are collected first (`Scratch`) and committed when its
//! closing brace is reached. Only tokens that a column needs are converted.

use crate::input::{Input, PartKey};
use crate::kineto::arg_keys::KEYS;
use crate::kineto::cursor::{Token, TokenKind};
use crate::kineto::emit_nvtx::{OPERATORS, marked_by_emit_nvtx};
use crate::kineto::gaps::{GapEnd, Gaps};
use crate::kineto::memory::MemoryArg;
use crate::kineto::number::{Fraction, FractionShapes, Integer, NumberError, integer, micros_to_ns};
use crate::kineto::part::takes;
use crate::kineto::recent::LookupCache;
use crate::kineto::scratch::Scratch;
use crate::kineto::sink::{Accepted, EventSink};
use crate::kineto::text::{PieceTexts, decode, is_plain};
use crate::options::LoadOptions;
use hashbrown::HashSet;
use hta_base::health::{Counter, Health};
use hta_trace::args::{ARGS, Arg, ArgSpec, Need};
use hta_trace::category::{Class, is_counter_range};
use hta_trace::device_fields::DeviceField;
use hta_trace::events::{ColumnsBuilder, Mark, NO_LENGTH};
use hta_trace::hardware_counters::SAMPLED_METRICS;
use hta_trace::strings::StrId;
use std::sync::Arc;

/// The meaning of a key of `args`.
pub(super) fn arg_step(key: &[u8], wanted: &[bool]) -> GapEnd {
    match KEYS.find(key) {
        Some(arg) if wanted.get(arg as usize) == Some(&true) => GapEnd::Arg(arg),
        Some(_) => GapEnd::Unwanted,
        None if key.is_empty() => GapEnd::Value,
        None => match (MemoryArg::of(key), DeviceField::of(key)) {
            (Some(arg), _) => GapEnd::Memory(arg),
            (None, Some(field)) => GapEnd::Device(field),
            (None, None) => GapEnd::Other { label: matches!(key, b"labels" | b"sort_index") },
        },
    }
}

/// How much an event may deviate from JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leniency {
    Strict,
    /// The name may contain bare quotes: it ends before the next known key.
    LooseName,
}

pub struct EventReader {
    pub columns: ColumnsBuilder,
    pub shapes: FractionShapes,
    pub(crate) scratch: Scratch,
    pub(super) options: LoadOptions,
    pub(super) wanted: Vec<bool>,
    pub(super) gaps: Gaps,
    pub(super) texts: PieceTexts,
    pub(super) recent_lanes: LookupCache<2>,
    pub(super) recent_cats: LookupCache<1>,
    /// Counters of hardware of which it was told how their values come about.
    pub(super) told_counters: HashSet<StrId>,
    /// How fractions of times are interpreted.
    pub(super) fraction: Fraction,
    /// The part of the file whose events are taken; all if absent.
    pub(super) part: Option<Arc<PartKey>>,
    /// If set, events go to this sink, and no columns are made.
    pub sink: Option<Box<dyn EventSink>>,
}

impl EventReader {
    pub(crate) fn new(options: LoadOptions) -> Self {
        Self::with_gaps(options, Gaps::default())
    }

    /// A reader with gaps that another reader has learned with the same options.
    pub(crate) fn with_gaps(options: LoadOptions, gaps: Gaps) -> Self {
        // Of the profiler's event indices only the smallest is kept, unless events are written.
        let is_wanted = |a: &ArgSpec| options.event_args || a.need != Need::Events || a.id == Arg::EvIdx;
        let wanted = ARGS.iter().map(is_wanted).collect();
        Self {
            columns: ColumnsBuilder::default(),
            shapes: FractionShapes::default(),
            scratch: Scratch::default(),
            options,
            wanted,
            gaps,
            texts: PieceTexts::default(),
            recent_lanes: LookupCache::default(),
            recent_cats: LookupCache::default(),
            told_counters: HashSet::default(),
            fraction: Fraction::default(),
            part: None,
            sink: None,
        }
    }

    /// Takes only the events of the part of the file that an input stands for.
    pub fn take_part(&mut self, input: &Input) {
        self.part = input.process.as_ref().map(|part| Arc::new(part.key.clone()));
    }

    /// Moves out the learned gaps.
    pub(crate) fn take_gaps(&mut self) -> Gaps {
        std::mem::take(&mut self.gaps)
    }

    /// Appends what was read of the next piece of the same file.
    pub(crate) fn append(&mut self, piece: EventReader) {
        self.shapes.merge(piece.shapes);
        let odd = piece.texts.odd_texts(&piece.columns.strings);
        self.columns.append(piece.columns);
        self.texts.know_odd(&odd, &mut self.columns.strings);
    }

    /// Turns the collected tokens into a row. `at` is the event's offset in the decompressed file.
    pub(crate) fn commit(&mut self, buf: &[u8], at: u64) {
        if let Some(part) = &self.part
            && !takes(part, &mut self.scratch, buf, self.sink.is_none())
        {
            return;
        }
        let phase = match self.scratch.ph.bytes(buf) {
            [p] => *p,
            _ if self.scratch.ph.kind == TokenKind::Escaped && plain_key(self.scratch.ph, buf).len() == 1 => {
                plain_key(self.scratch.ph, buf).as_bytes()[0]
            }
            _ => {
                self.columns.health.hit(Counter::PhMissing, at);
                return;
            }
        };
        if self.sink.is_some() {
            self.hand_on(phase, buf, at);
            return;
        }
        if self.scratch.cat.bytes(buf).starts_with(OVERLAY) {
            self.columns.health.hit(Counter::OverlayIgnored, at);
            return;
        }
        *self.columns.phases.entry(phase).or_default() += 1;
        if self.scratch.loose_name {
            self.columns.health.hit(Counter::UnescapedQuote, at);
        }
        if self.scratch.repeated_key {
            self.columns.health.hit(Counter::EventKeyDuplicate, at);
        }
        match phase {
            b'X' | b'B' | b'E' => self.commit_slice(phase, buf, at),
            b's' | b'f' | b't' => self.commit_flow(phase, buf, at),
            b'M' => self.commit_label(buf, at),
            b'i' | b'I' | b'R' | b'n' => {
                self.commit_instant(buf);
                self.commit_memory(buf, at);
            }
            b'C' => self.commit_counter(buf, at),
            // Object events have no duration.
            _ => {}
        }
    }

    /// Registers that the event is kept although its arguments could not be read.
    pub(crate) fn drop_args(&mut self, at: u64) {
        self.scratch.args.clear();
        self.scratch.fields.clear();
        self.scratch.memory.clear();
        self.scratch.rest.clear();
        self.scratch.lost_args = true;
        self.columns.health.hit(Counter::ArgsBroken, at);
    }

    /// Passes the event to the sink if it is valid. Checks and counts as the functions below do.
    #[cold]
    fn hand_on(&mut self, phase: u8, buf: &[u8], at: u64) {
        let mut ts = None;
        match phase {
            b'X' | b'B' | b'E' => {
                ts = self.start_time(buf, at);
                if ts.is_none() {
                    return;
                }
                if phase == b'X' {
                    if !self.has_duration(buf) {
                        self.columns.health.hit(Counter::DurMissing, at);
                        return;
                    }
                    self.duration(buf, at);
                }
            }
            b's' | b'f' if matches!(self.scratch.cat.bytes(buf), b"fwdbwd" | b"forward_backward") => {
                let _ = self.ts(buf);
            }
            b'i' | b'I' | b'R' | b'n' => self.commit_instant(buf),
            _ => {}
        }
        let Some(sink) = &mut self.sink else { return };
        let accepted = Accepted { buf, tokens: &self.scratch, phase, ts };
        if !sink.event(&accepted) {
            self.columns.health.hit(Counter::EventUnreadable, at);
        }
    }

    fn commit_slice(&mut self, phase: u8, buf: &[u8], at: u64) {
        let Some(ts) = self.start_time(buf, at) else { return };
        let mut cat = self.category(buf, at);
        let class = self.columns.categories.get(usize::from(cat)).map_or(Class::Unknown, |c| c.class);
        self.columns.sampled_metrics |=
            class == Class::Counter && self.scratch.cat.bytes(buf) == SAMPLED_METRICS.as_bytes();
        if class == Class::Python && self.options.skip_python {
            self.columns.health.hit(Counter::NotLoaded, at);
            return;
        }
        if self.is_unneeded(class) && phase == b'X' && self.has_duration(buf) {
            // A duration that overflows is clipped elsewhere and is no evidence here.
            let dur = Some(self.duration(buf, at)).filter(|d| *d != i64::MAX).unwrap_or(0);
            self.columns.reach(ts, ts.saturating_add(dur));
            return;
        }
        let lane = self.lane(buf, at);
        if phase == b'E' {
            self.columns.marks.push(Mark { lane, ts, row: None });
            return;
        }
        let dur = match phase {
            b'B' => NO_LENGTH,
            _ if !self.has_duration(buf) => {
                self.columns.health.hit(Counter::DurMissing, at);
                return;
            }
            _ => self.duration(buf, at),
        };
        let marked = marked_by_emit_nvtx(class, self.scratch.name.bytes(buf));
        let name = match (&marked, self.scratch.name.kind) {
            (Some(marked), _) => {
                let operators = self.columns.strings.intern(OPERATORS);
                cat = self.columns.category(operators);
                self.columns.strings.intern(&marked.full_name())
            }
            (None, TokenKind::Absent) => {
                self.columns.health.hit(Counter::NameMissing, at);
                StrId::EMPTY
            }
            (None, _) => self.texts.intern(self.scratch.name, buf, &mut self.columns, at),
        };
        let row = self.columns.len() as u32;
        let c = &mut self.columns;
        c.ts.push(ts);
        c.dur.push(dur);
        c.name.push(name);
        c.cat.push(cat);
        c.lane.push(lane);
        if phase == b'B' {
            c.marks.push(Mark { lane, ts, row: Some(row) });
        }
        self.arguments(row, class, marked.as_ref(), buf, at);
        if DeviceField::is_of(class) {
            self.device_fields(row, buf, at);
        }
        if !self.scratch.rest.is_empty()
            && (self.options.rest_args || is_counter_range(self.scratch.cat.bytes(buf)))
        {
            self.rest(row, buf, at);
        }
        self.columns.health.add(Counter::IntAboveI64, self.scratch.huge, Some(at), "");
    }

    /// Whether only the extent of an event of a class is kept.
    pub(super) fn is_unneeded(&self, class: Class) -> bool {
        self.options.device_only && class.is_host() && class != Class::Runtime
    }

    /// Keeps the smallest index that the profiler gave an event.
    pub(super) fn note_profiler_index(&mut self, raw: &[u8]) {
        let least = &mut self.columns.least_profiler_index;
        // No index is smaller than 0.
        if *least == Some(0) {
            return;
        }
        if let Integer::Value(index) = integer(raw)
            && let Ok(index) = i64::try_from(index)
        {
            *least = Some(least.map_or(index, |l| l.min(index)));
        }
    }

    /// The time of the event.
    #[inline]
    pub(super) fn ts(&mut self, buf: &[u8]) -> Result<i64, NumberError> {
        match self.scratch.exact_ts {
            Some(ts) => Ok(ts),
            None => micros_to_ns(self.scratch.ts.bytes(buf), self.fraction, &mut self.shapes),
        }
    }

    fn has_duration(&self, buf: &[u8]) -> bool {
        self.scratch.exact_dur.is_some() || !matches!(self.scratch.dur.bytes(buf), b"" | b"null")
    }

    /// The start time; `None` (counted) if there is no valid one.
    fn start_time(&mut self, buf: &[u8], at: u64) -> Option<i64> {
        let token = self.scratch.ts;
        match self.ts(buf) {
            Ok(ts) => {
                self.columns.has_fraction |= ts % 1000 != 0;
                if token.is_text() {
                    self.columns.health.hit(Counter::NumberAsString, at);
                }
                Some(ts)
            }
            Err(NumberError::Overflow) => {
                self.columns.health.hit(Counter::TimeOverflow, at);
                None
            }
            Err(NumberError::NotANumber) => {
                self.columns.health.hit(Counter::TsMissing, at);
                None
            }
        }
    }

    fn duration(&mut self, buf: &[u8], at: u64) -> i64 {
        let token = self.scratch.dur;
        let dur = match self.scratch.exact_dur {
            Some(dur) => Ok(dur),
            None => micros_to_ns(token.bytes(buf), self.fraction, &mut self.shapes),
        };
        match dur {
            Ok(dur) if dur >= 0 => {
                if token.is_text() {
                    self.columns.health.hit(Counter::NumberAsString, at);
                }
                dur
            }
            Ok(_) => {
                self.columns.health.hit(Counter::DurNegative, at);
                0
            }
            Err(NumberError::Overflow) if token.bytes(buf).starts_with(b"-") => {
                self.columns.health.hit(Counter::DurNegative, at);
                0
            }
            // It is clipped and counted when the record window is known.
            Err(NumberError::Overflow) => i64::MAX,
            Err(NumberError::NotANumber) => {
                self.columns.health.hit(Counter::BareWord, at);
                0
            }
        }
    }

    pub(super) fn category(&mut self, buf: &[u8], at: u64) -> u16 {
        if let TokenKind::Interned(id) = self.scratch.cat.kind {
            return self.columns.category(id);
        }
        let raw = self.scratch.cat.bytes(buf);
        if let Some(cat) = self.recent_cats.find([raw]) {
            return cat as u16;
        }
        let id = self.texts.intern(self.scratch.cat, buf, &mut self.columns, at);
        let cat = self.columns.category(id);
        if is_plain(raw) {
            self.recent_cats.remember([raw], u32::from(cat));
        }
        cat
    }

    pub(super) fn lane(&mut self, buf: &[u8], at: u64) -> u32 {
        let (pid, tid) = (self.scratch.pid.bytes(buf), self.scratch.tid.bytes(buf));
        let has_texts = ![self.scratch.pid, self.scratch.tid].iter().any(Token::is_interned);
        if has_texts && let Some(lane) = self.recent_lanes.find([pid, tid]) {
            return lane;
        }
        let pid_id = self.texts.intern(self.scratch.pid, buf, &mut self.columns, at);
        let tid_id = self.texts.intern(self.scratch.tid, buf, &mut self.columns, at);
        let lane = self.columns.lane(pid_id, tid_id);
        if has_texts && is_plain(pid) && is_plain(tid) {
            self.recent_lanes.remember([pid, tid], lane);
        }
        lane
    }
}

/// Prefix of the categories of events that `hta overlay` adds; such events are not part of the trace.
pub(crate) const OVERLAY: &[u8] = b"hta_";

/// A key with its escapes resolved.
#[cold]
pub(super) fn plain_key(key: Token, buf: &[u8]) -> String {
    decode(key.bytes(buf), true, &mut Health::default(), 0).into_owned()
}

/// `"key": value` of an object, from the opening quote of the key.
pub(super) fn member(key: usize, value: Token) -> Token {
    Token { start: key, end: value.end + usize::from(value.is_text()), kind: TokenKind::Nested }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kineto::cursor::{Cursor, TokenError};

    fn read(options: LoadOptions, text: &str) -> EventReader {
        let mut r = EventReader::new(options);
        let mut c = Cursor::new(text.as_bytes(), 0);
        assert_eq!(r.collect(&mut c, Leniency::Strict), Ok(()));
        r.commit(text.as_bytes(), 0);
        r
    }

    #[test]
    fn an_event_becomes_a_row_whatever_the_order_of_its_keys() {
        let text = r#"{"args": {"stream": 7, "correlation": 12, "grid": [1, 2, 3], "x": {"y": 1}}, "tid": 7,
            "pid": 0, "dur": 2.5, "ts": 10.125, "name": "k", "cat": "kernel", "ph": "X"}"#;
        let r = read(LoadOptions { rest_args: true, ..LoadOptions::default() }, text);
        let c = &r.columns;
        assert_eq!((c.ts[0], c.dur[0]), (10_125, 2_500));
        assert_eq!(c.args.int(Arg::Stream, 0), Some(7));
        assert_eq!(c.strings.get(c.args.text(Arg::Grid, 0).unwrap()), "[1,2,3]");
        assert_eq!(c.strings.get(StrId(c.args.rest.get(0).unwrap() as u32)), r#"{"x":{"y":1}}"#);
        assert!(c.has_fraction);
    }

    #[test]
    fn a_handle_in_hexadecimal_is_no_repair() {
        let text = r#"{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":"0x5","ts":1,"dur":1,
            "args":{"context":"0x55d0a1b2c3d0","l0 queue":"0x55d0a1b2f000","correlation":"7"}}"#;
        let c = read(LoadOptions { event_args: true, ..LoadOptions::default() }, text).columns;
        assert_eq!((c.health.count(Counter::HandleAsText), c.health.count(Counter::NumberAsString)), (1, 1));
        assert_eq!(c.args.uint(Arg::Context, 0), Some(0x55d0_a1b2_c3d0));
    }

    #[test]
    fn counters_of_a_range_are_kept_wherever_its_category_stands() {
        let args = r#""args": {"smsp__x.sum": 5, "odd": inf}"#;
        let rest = "\"ph\":\"X\",\"name\":\"k\",\"pid\":0,\"tid\":0,\"ts\":1,\"dur\":1";
        let (cat, other) = (r#""cat":"cuda_profiler_range""#, r#""cat":"kernel""#);
        let kept = |text: String| {
            let r = read(LoadOptions::default(), &text);
            r.columns.args.rest.get(0).map(|id| r.columns.strings.get(StrId(id as u32)).to_string())
        };
        let want = Some(r#"{"smsp__x.sum":5,"odd":inf}"#.to_string());
        assert_eq!(kept(format!("{{{cat},{rest},{args}}}")), want);
        assert_eq!(kept(format!("{{{args},{rest},{cat}}}")), want);
        assert_eq!(kept(format!("{{{args},{rest},{other}}}")), None);
        assert_eq!(kept(format!("{{{other},{rest},{args}}}")), None);
    }

    #[test]
    fn a_name_with_bare_quotes_ends_before_the_next_key() {
        let text = r#"{"ph":"X","name": "f({"a": 1, "pid": 2})", "pid": 3, "tid": 4, "ts": 1, "dur": 1}"#;
        let mut r = EventReader::new(LoadOptions::default());
        assert_eq!(
            r.collect(&mut Cursor::new(text.as_bytes(), 0), Leniency::Strict),
            Err(TokenError::Syntax)
        );
        let text = r#"{"ph":"X","name": "f({"a": 1})", "pid": 3, "tid": 4, "ts": 1, "dur": 1}"#;
        assert_eq!(r.collect(&mut Cursor::new(text.as_bytes(), 0), Leniency::LooseName), Ok(()));
        r.commit(text.as_bytes(), 0);
        assert_eq!(r.columns.strings.get(r.columns.name[0]), r#"f({"a": 1})"#);
        assert_eq!(r.columns.health.count(Counter::UnescapedQuote), 1);
    }

    #[test]
    fn every_argument_key_is_found() {
        for spec in ARGS {
            for key in spec.keys {
                assert_eq!(KEYS.find(key.as_bytes()), Some(spec.id));
            }
        }
        assert_eq!(KEYS.find(b"no such key"), None);
    }
}
