//! Fast parsing of the text between two values of an event, by comparison with text that was parsed before.
//!
//! A producer writes all events in the same form: half of the text is keys, quotes, colons and blanks that
//! repeat from event to event. So each such gap is parsed once and then only compared: after the value of a
//! given key, the same bytes always lead to the value of the same next key.
//!
//! ```text
//!   "ph": "X", "cat": "kernel", "name": "gemm", ...
//!          |--------|          |-----------|         gaps: from the end of a value to the start of the next
//! ```
//!
//! This is exact, not a heuristic: a gap that compares equal has been parsed before from the same state, and
//! a gap that differs in one byte is parsed. Comparing takes two loads of 16 bytes, where parsing takes a
//! branch per byte.

use crate::kineto::cursor::{Cursor, Parse, TokenError, word_at};
use crate::kineto::memory::MemoryArg;
use crate::kineto::text::decode;
use hashbrown::HashMap;
use hta_base::health::Health;
use hta_trace::args::Arg;
use hta_trace::device_fields::DeviceField;

/// What follows a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GapEnd {
    Ph,
    Cat,
    Name,
    Pid,
    Tid,
    Ts,
    Dur,
    Id,
    Args,
    /// A value that is not needed.
    Ignored,
    /// A known argument whose column is wanted.
    Arg(Arg),
    /// A known argument whose column is not wanted.
    Unwanted,
    /// An argument without a column; the field says whether it is one of `M` events.
    Other {
        label: bool,
    },
    /// An argument of `[memory]` records; there is no column for it.
    Memory(MemoryArg),
    /// An argument of device rows without a column, and `name` of `M` events.
    Device(DeviceField),
    /// The argument without a name: the value of a counter.
    Value,
    /// The end of `args`, after its closing brace.
    Close,
    /// The end of the event, after its closing brace.
    End,
}

/// The result of reading one gap.
pub(crate) struct GapRead {
    pub(crate) step: GapEnd,
    /// The state after the gap.
    pub(crate) place: ParserState,
    /// Position of the key's opening quote.
    pub(crate) key: usize,
}

/// Parser state: the key whose value was read last, after which the next gap begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParserState(u16);

impl ParserState {
    /// After the brace that opens an event.
    pub(crate) const OPEN: ParserState = ParserState(0);
    /// After the brace that closes `args`.
    const CLOSED: ParserState = ParserState(1);
    /// After an event.
    const END: ParserState = ParserState(2);
    /// After an `args` that is not an object.
    pub(crate) const NO_ARGS: ParserState = ParserState(3);
    /// After a key beyond the limit of `PLACES`.
    const ANY: ParserState = ParserState(4);
    const ANY_ARG: ParserState = ParserState(5);
}

/// Longest gap that is remembered, bytes; longer ones are parsed each time.
const LONGEST: usize = 64;
const WORDS: usize = LONGEST / 8;
/// Number of gaps remembered per state.
const WAYS: usize = 8;
/// Number of keys that are distinguished.
const PLACES: usize = 1024;

struct KnownGap {
    gap: [u64; WORDS],
    /// A mask of the gap's bytes.
    mask: [u64; WORDS],
    len: u8,
    /// Offset of the key's opening quote in the gap.
    key: u8,
    to: ParserState,
    step: GapEnd,
}

impl KnownGap {
    fn new(gap: &[u8], key: usize, to: ParserState, step: GapEnd) -> Option<Self> {
        let (len, key) = (u8::try_from(gap.len()).ok()?, u8::try_from(key).ok()?);
        let (mut bytes, mut mask) = ([0; LONGEST], [0; LONGEST]);
        bytes.get_mut(..gap.len())?.copy_from_slice(gap);
        mask.get_mut(..gap.len())?.fill(0xff);
        let words = |b: &[u8; LONGEST]| std::array::from_fn(|i| word_at(b, i * 8).unwrap_or(0));
        Some(Self { gap: words(&bytes), mask: words(&mask), len, key, to, step })
    }

    /// Whether `text` begins with the gap. The loop has no early exit, so that the compiler can use vector
    /// instructions.
    #[inline]
    fn leads(&self, text: &[u8; LONGEST]) -> bool {
        let (words, _) = text.as_chunks::<8>();
        let differ = |range: std::ops::Range<usize>| {
            let mut differing = 0;
            for i in range {
                differing |= (u64::from_le_bytes(words[i]) ^ self.gap[i]) & self.mask[i];
            }
            differing
        };
        differ(0..WORDS / 2) == 0 && (usize::from(self.len) <= LONGEST / 2 || differ(WORDS / 2..WORDS) == 0)
    }
}

/// The gaps learned so far.
pub(crate) struct Gaps {
    /// Indexed by state.
    ways: Vec<Vec<KnownGap>>,
    /// States by key as written in the file: outside of `args`, and inside.
    places: [HashMap<Box<[u8]>, ParserState>; 2],
}

impl Default for Gaps {
    fn default() -> Self {
        let fixed = usize::from(ParserState::ANY_ARG.0) + 1;
        Self { ways: (0..fixed).map(|_| Vec::new()).collect(), places: Default::default() }
    }
}

impl Gaps {
    /// Reads a gap that is already known; `None` leaves the cursor where it is.
    #[inline]
    pub(crate) fn follow(&self, from: ParserState, c: &mut Cursor) -> Option<GapRead> {
        let text = c.buf.get(c.pos..)?.first_chunk()?;
        let way = self.ways.get(usize::from(from.0))?.iter().find(|w| w.leads(text))?;
        let key = c.pos + usize::from(way.key);
        c.pos += usize::from(way.len);
        Some(GapRead { step: way.step, place: way.to, key })
    }

    /// Parses a gap and remembers it. `step` gives the meaning of a key.
    ///
    /// # Errors
    /// When the text ends, or is not valid here.
    #[cold]
    pub(crate) fn parse(
        &mut self,
        from: ParserState,
        inside: bool,
        c: &mut Cursor,
        step: impl Fn(&[u8]) -> GapEnd,
    ) -> Parse<GapRead> {
        let start = c.pos;
        let made = loop {
            match c.peek()? {
                b'"' => {
                    let token = c.string()?;
                    c.expect(b':')?;
                    c.peek()?;
                    let raw = token.bytes(c.buf);
                    let key = decode(raw, raw.contains(&b'\\'), &mut Health::default(), 0);
                    let place = self.place(inside, raw);
                    break GapRead { step: step(key.as_bytes()), place, key: token.start - 1 };
                }
                b',' => c.pos += 1,
                b'}' => {
                    c.pos += 1;
                    let (step, place) = if inside {
                        (GapEnd::Close, ParserState::CLOSED)
                    } else {
                        (GapEnd::End, ParserState::END)
                    };
                    break GapRead { step, place, key: start };
                }
                _ => return Err(TokenError::Syntax),
            }
        };
        let way = KnownGap::new(&c.buf[start..c.pos], made.key - start, made.place, made.step);
        // A known gap near the end of a block is parsed, too, and must not take a second slot.
        if let (Some(ways), Some(way)) = (self.ways.get_mut(usize::from(from.0)), way)
            && ways.len() < WAYS
            && ways.iter().all(|w| (w.len, &w.gap) != (way.len, &way.gap))
        {
            ways.push(way);
        }
        Ok(made)
    }

    fn place(&mut self, inside: bool, key: &[u8]) -> ParserState {
        let places = &mut self.places[usize::from(inside)];
        if let Some(place) = places.get(key) {
            return *place;
        }
        let number = self.ways.len();
        if number >= PLACES || key.len() > LONGEST {
            return if inside { ParserState::ANY_ARG } else { ParserState::ANY };
        }
        let place = ParserState(number as u16);
        self.ways.push(Vec::new());
        places.insert(Box::from(key), place);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(key: &[u8]) -> GapEnd {
        if key == b"ph" { GapEnd::Ph } else { GapEnd::Ignored }
    }

    #[test]
    fn a_gap_is_parsed_once_and_followed_only_when_every_byte_is_the_same() {
        let mut gaps = Gaps::default();
        let padded = |text: &str| format!("{text}{}", " ".repeat(LONGEST)).into_bytes();
        let first = padded("{ \"ph\" : \"X\"}");
        let mut c = Cursor::new(&first, 1);
        assert!(gaps.follow(ParserState::OPEN, &mut c).is_none());
        assert_eq!(
            gaps.parse(ParserState::OPEN, false, &mut c, step).map(|m| (m.step, m.key)),
            Ok((GapEnd::Ph, 2))
        );
        assert_eq!(c.pos, 9);
        for (text, known) in
            [("{ \"ph\" : 5", true), ("{ \"pH\" : 5", false), ("{ \"ph\": 5", false), ("{", false)]
        {
            let text = padded(text);
            let mut c = Cursor::new(&text, 1);
            let made = gaps.follow(ParserState::OPEN, &mut c).map(|m| (m.step, m.key));
            assert_eq!((made, c.pos), if known { (Some((GapEnd::Ph, 2)), 9) } else { (None, 1) });
        }
    }

    #[test]
    fn what_is_parsed_again_at_the_end_of_a_block_takes_no_place() {
        let mut gaps = Gaps::default();
        let (short, other) =
            (b"{\"ph\": 1".to_vec(), format!("{{\"ts\": 1{}", " ".repeat(LONGEST)).into_bytes());
        for _ in 0..=WAYS {
            let mut c = Cursor::new(&short, 1);
            assert!(gaps.follow(ParserState::OPEN, &mut c).is_none());
            assert!(gaps.parse(ParserState::OPEN, false, &mut c, step).is_ok());
        }
        assert!(gaps.parse(ParserState::OPEN, false, &mut Cursor::new(&other, 1), step).is_ok());
        assert!(gaps.follow(ParserState::OPEN, &mut Cursor::new(&other, 1)).is_some());
        assert_eq!(gaps.ways[0].len(), 2);
    }

    #[test]
    fn long_gaps_and_many_keys_are_read_all_the_same() {
        let mut gaps = Gaps::default();
        for n in 0..2 * PLACES {
            let blanks = " ".repeat(n % (2 * LONGEST));
            let text = format!("{{{blanks}\"key {n}\": 1}}{}", " ".repeat(LONGEST));
            for _ in 0..2 {
                let mut c = Cursor::new(text.as_bytes(), 1);
                let made = match gaps.follow(ParserState::OPEN, &mut c) {
                    Some(made) => made,
                    None => gaps.parse(ParserState::OPEN, false, &mut c, step).expect("a key"),
                };
                assert_eq!((made.step, made.key), (GapEnd::Ignored, 1 + blanks.len()));
                assert_eq!(c.buf[c.pos], b'1');
                let made = gaps.parse(made.place, false, &mut Cursor::new(c.buf, c.pos + 1), step);
                assert_eq!(made.map(|m| m.step), Ok(GapEnd::End));
            }
        }
        assert!(gaps.ways.len() <= PLACES && gaps.ways.iter().all(|w| w.len() <= WAYS));
    }
}
