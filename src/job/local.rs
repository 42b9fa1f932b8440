//! The local work of a rank: what it did between two instants at which it may meet other ranks.
//!
//! A lane (a device, or the main thread if collectives run on the host) is cut at the start and end of each
//! of its collectives and at the starts of steps. Each piece stores what filled it, so that any window
//! between two cuts can be summed later, without the trace, when it is known which windows matter.
//!
//! ```text
//!   lane      |step............|collective|..........|collective|...
//!   kernels     [A ][B     ]                [A ] [B ]
//!   pieces    |A B gap         |          |gap A gap B|          |
//! ```
//!
//! On a device an instant belongs to the compute kernel that started first, else (if no communication runs)
//! to the copy that started first, else to what the idle device waited for. On the host it belongs to the
//! main thread's innermost event. Communication without compute is not stored here but in `Lane::exposed`,
//! because only the joined job knows which part of it was waiting. So entries and exposed communication sum
//! to the piece.

use crate::ready::TOLERANCE;
use hashbrown::HashMap;
use hta_base::stored_name;
use hta_base::units::{Ns, Span};
use hta_facts::gaps::{Classifier, GapCause};
use hta_facts::host_activity::{HostActivity, HostNames};
use hta_trace::activity::Activity;
use hta_trace::args::Arg;
use hta_trace::device::DeviceWork;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::{Interner, StrId};
use hta_trace::timeline::WorkClass;
use hta_trace::varint;
use std::collections::BTreeMap;

/// What filled an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeUse {
    Kernel,
    Copy,
    /// The next activity was submitted but had not started.
    KernelWait,
    /// As `KernelWait`, but for longer than a launch takes, or no activity followed.
    OtherWait,
    /// The launch of the next activity was not recorded.
    UnlinkedWait,
    /// What the host did.
    Host(HostActivity),
}

impl TimeUse {
    fn all() -> impl Iterator<Item = TimeUse> {
        let of_host = HostActivity::ALL.into_iter().map(TimeUse::Host);
        let waits = [TimeUse::KernelWait, TimeUse::OtherWait, TimeUse::UnlinkedWait];
        [TimeUse::Kernel, TimeUse::Copy].into_iter().chain(waits).chain(of_host)
    }

    pub fn name(self) -> &'static str {
        match self {
            TimeUse::Kernel => "kernel",
            TimeUse::Copy => "copy",
            TimeUse::KernelWait => "kernel_wait",
            TimeUse::OtherWait => "other_wait",
            TimeUse::UnlinkedWait => "unlinked_wait",
            TimeUse::Host(activity) => activity.name(),
        }
    }
}

stored_name!(TimeUse, TimeUse::all(), name);

/// One cause of time in a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalEntry {
    pub what: TimeUse,
    /// Empty for the rest of this `what`, which is too small to be stored by name.
    pub name: StrId,
    /// Launch shape of a kernel; for a built-in Python function the calling frame that has a file and line.
    pub detail: StrId,
    /// Number of starts inside the piece.
    pub count: u32,
    pub time: Ns,
}

/// Entries by piece; piece `i` is `[cuts[i], cuts[i + 1])`.
///
/// A rank has as many pieces as calls of collectives, each with a few entries, and those of all ranks are in
/// memory together. So an entry is stored compactly: key number, count and time as variable-length integers
/// with 7 bits per byte.
#[derive(Debug, Clone, Default)]
pub struct Local {
    pub(crate) cuts: Vec<Ns>,
    /// Start of each piece in `packed`, followed by the end.
    first: Vec<u32>,
    keys: Vec<LocalUse>,
    packed: Vec<u8>,
}

/// Largest number of entries of a piece that are stored by name; the rest is summed by kind.
const KEPT: usize = 16;

/// A running sum: number of starts, and time in ns.
#[derive(Default)]
struct RunningSum {
    count: u32,
    time: Ns,
}

pub(crate) type LocalUse = (TimeUse, StrId, StrId);

/// A stretch of time with one use, and the number of its starts.
type UseStretch = (Span, LocalUse, u32);

impl Local {
    /// The entries of the pieces inside `window`, whose ends must be cuts.
    pub fn entries_in(&self, window: Span) -> impl Iterator<Item = LocalEntry> {
        let piece = |t: Ns| self.cuts.partition_point(|c| *c < t);
        let at = |i: usize| self.first.get(i).map_or(self.packed.len(), |b| *b as usize);
        let (a, b) = (at(piece(window.start)), at(piece(window.end)));
        let mut bytes = self.packed.get(a..b.max(a)).unwrap_or(&[]).iter();
        std::iter::from_fn(move || {
            let mut number = || varint::read(&mut bytes);
            let (key, count, time) = (number()?, number()?, number()?);
            let (what, name, detail) = *self.keys.get(key as usize)?;
            Some(LocalEntry { what, name, detail, count: count as u32, time: time.cast_signed() })
        })
    }

    /// Maps every name through `map`.
    pub(crate) fn rename(&mut self, map: impl Fn(StrId) -> StrId) {
        for (_, name, detail) in &mut self.keys {
            *name = map(*name);
            *detail = map(*detail);
        }
    }

    /// The cuts and the entries of each piece, as [`Local::from_pieces`] takes them.
    pub(crate) fn pieces(&self) -> (&[Ns], impl Iterator<Item = Vec<LocalEntry>>) {
        (&self.cuts, self.cuts.windows(2).map(|w: &[Ns]| self.entries_in(Span::new(w[0], w[1])).collect()))
    }

    /// The inverse of [`Local::pieces`].
    pub(crate) fn from_pieces(cuts: Vec<Ns>, pieces: impl IntoIterator<Item = Vec<LocalEntry>>) -> Self {
        let mut out = LocalBuilder::default();
        for piece in pieces {
            out.begin();
            for e in piece {
                out.entry((e.what, e.name, e.detail), &RunningSum { count: e.count, time: e.time });
            }
        }
        out.finish(cuts)
    }

    fn build(cuts: Vec<Ns>, stretches: Vec<UseStretch>) -> Self {
        let mut pieces: Vec<HashMap<LocalUse, RunningSum>> = Vec::new();
        pieces.resize_with(cuts.len().saturating_sub(1), HashMap::new);
        for (span, key, count) in stretches {
            let mut i = cuts.partition_point(|c| *c <= span.start).saturating_sub(1);
            // What a rounded time lets begin before a cut is counted behind it, where it is.
            let is_rounded = |cut: &&Ns| **cut - span.start <= TOLERANCE && span.end - **cut > TOLERANCE;
            let of_count = i + usize::from(cuts.get(i + 1).filter(is_rounded).is_some());
            if let Some(piece) = pieces.get_mut(of_count) {
                piece.entry(key).or_default().count += count;
            }
            while let (Some(piece), Some(end)) = (pieces.get_mut(i), cuts.get(i + 1)) {
                let part = span.intersect(Span::new(cuts[i], *end));
                if !part.is_empty() {
                    piece.entry(key).or_default().time += part.len();
                }
                if *end >= span.end {
                    break;
                }
                i += 1;
            }
        }
        let mut out = LocalBuilder::default();
        pieces.into_iter().for_each(|p| out.push(p));
        out.finish(cuts)
    }
}

/// Builds [`Local`] piece by piece.
#[derive(Default)]
struct LocalBuilder {
    first: Vec<u32>,
    known: HashMap<LocalUse, u64>,
    keys: Vec<LocalUse>,
    packed: Vec<u8>,
}

impl LocalBuilder {
    fn begin(&mut self) {
        self.first.push(self.packed.len() as u32);
    }

    /// Adds the next piece: the largest entries by name, the rest by kind.
    fn push(&mut self, piece: HashMap<LocalUse, RunningSum>) {
        self.begin();
        let mut all: Vec<(LocalUse, RunningSum)> = piece.into_iter().collect();
        all.sort_unstable_by_key(|(key, t)| (std::cmp::Reverse(t.time), *key));
        let mut rest: BTreeMap<TimeUse, RunningSum> = BTreeMap::new();
        for (i, (key, tally)) in all.into_iter().enumerate() {
            if i < KEPT {
                self.entry(key, &tally);
            } else {
                let r = rest.entry(key.0).or_default();
                r.count += tally.count;
                r.time += tally.time;
            }
        }
        for (what, tally) in rest.iter().filter(|(_, t)| t.time > 0 || t.count > 0) {
            self.entry((*what, StrId::EMPTY, StrId::EMPTY), tally);
        }
    }

    fn entry(&mut self, key: LocalUse, tally: &RunningSum) {
        let next = self.keys.len() as u64;
        let id = *self.known.entry(key).or_insert(next);
        if id == next {
            self.keys.push(key);
        }
        for n in [id, u64::from(tally.count), tally.time.cast_unsigned()] {
            varint::write(&mut self.packed, n);
        }
    }

    fn finish(mut self, cuts: Vec<Ns>) -> Local {
        self.first.push(self.packed.len() as u32);
        let Self { mut first, mut keys, mut packed, .. } = self;
        first.shrink_to_fit();
        keys.shrink_to_fit();
        packed.shrink_to_fit();
        Local { cuts, first, keys, packed }
    }
}

/// The local work of a device, cut at `cuts` (ascending, distinct).
pub(crate) fn of_device(
    trace: &RankTrace,
    work: &DeviceWork,
    cuts: Vec<Ns>,
    kernel_wait_max: Ns,
    hosts: &HostNames,
    names: &mut Interner,
) -> Local {
    let mut stretches: Vec<UseStretch> = Vec::new();
    let mut shapes: HashMap<(Option<StrId>, Option<StrId>), StrId> = HashMap::new();
    let mut known: HashMap<StrId, StrId> = HashMap::new();
    let acts = || work.activities.iter().map(|&i| &trace.activities[i as usize]);
    let mut at = Ns::MIN;
    for a in acts().filter(|a| a.work == WorkClass::Compute) {
        let name = *known.entry(a.name).or_insert_with(|| names.intern(trace.text(a.name)));
        let shape = shape(trace, a, &mut shapes, names);
        // Time that an earlier kernel covers belongs to that kernel.
        let own = Span::new(a.span.start.max(at), a.span.end);
        let shown = if own.is_empty() { Span::new(a.span.start, a.span.start) } else { own };
        stretches.push((shown, (TimeUse::Kernel, name, shape), 1));
        at = at.max(a.span.end);
    }
    let above = Union::new(acts().filter(|a| a.work != WorkClass::Memory).map(|a| a.span));
    let mut at = Ns::MIN;
    for a in acts().filter(|a| a.work == WorkClass::Memory) {
        let name = *known.entry(a.name).or_insert_with(|| names.intern(trace.text(a.name)));
        let key = (TimeUse::Copy, name, StrId::EMPTY);
        stretches.push((Span::new(a.span.start, a.span.start), key, 1));
        let own = Span::new(a.span.start.max(at), a.span.end);
        stretches.extend(above.gaps_in(own).into_iter().map(|s| (s, key, 0)));
        at = at.max(a.span.end);
    }
    let whole = Span::new(cuts.first().copied().unwrap_or(0), cuts.last().copied().unwrap_or(0));
    let classifier = Classifier::of_device(trace, work, kernel_wait_max);
    for span in work.timeline.busy().gaps_in(whole) {
        let gap = classifier.classify(span);
        host_uses(trace, hosts, gap.thread, Span::new(span.start, gap.host_until), names, &mut stretches);
        let rest = match gap.rest {
            GapCause::KernelWait => TimeUse::KernelWait,
            GapCause::Other => TimeUse::OtherWait,
            GapCause::Unlinked => TimeUse::UnlinkedWait,
        };
        let key = (rest, StrId::EMPTY, StrId::EMPTY);
        stretches.push((Span::new(gap.host_until, span.end), key, u32::from(gap.host_until < span.end)));
    }
    Local::build(cuts, stretches)
}

/// The local work of the main thread, cut at `cuts` (ascending, distinct).
pub(crate) fn of_host(trace: &RankTrace, cuts: Vec<Ns>, hosts: &HostNames, names: &mut Interner) -> Local {
    let main = trace.main_thread();
    let mut out = LocalBuilder::default();
    let mut stretches: Vec<UseStretch> = Vec::new();
    // Piece by piece, because the whole thread at once would be as large as its trace.
    for ends in cuts.windows(2) {
        let piece = Span::new(ends[0], ends[1]);
        host_uses(trace, hosts, main, piece, names, &mut stretches);
        let mut tallies: HashMap<LocalUse, RunningSum> = HashMap::new();
        for (span, key, count) in stretches.drain(..) {
            let t = tallies.entry(key).or_default();
            t.count += count;
            t.time += span.len();
        }
        out.push(tallies);
    }
    out.finish(cuts)
}

fn host_uses(
    trace: &RankTrace,
    hosts: &HostNames,
    thread: Option<u32>,
    window: Span,
    names: &mut Interner,
    out: &mut Vec<UseStretch>,
) {
    let mut previous = None;
    hosts.each_use(trace, thread, window, |mut used| {
        // What runs directly in a step has no event of its own.
        if used.row.is_some_and(|row| hosts.is_step(trace, row)) {
            (used.activity, used.row) = (HostActivity::Untracked, None);
        }
        let (name, caller) = hosts.texts(trace, &used);
        let key = (TimeUse::Host(used.activity), names.intern(without_address(name)), names.intern(caller));
        // An event that continues after an inner one counts as one start.
        let is_new =
            used.row != previous && used.row.is_none_or(|r| window.holds(trace.columns.ts[r as usize]));
        let starts = is_new && used.row.is_none_or(|r| trace.columns.ts[r as usize] == used.span.start);
        out.push((used.span, key, u32::from(starts)));
        previous = used.row;
    });
}

/// The name up to the address, which differs between ranks: `<built-in method run of Engine object at
/// 0x7f...>`.
fn without_address(name: &str) -> &str {
    name.find(" at 0x").map_or(name, |i| &name[..i])
}

fn shape(
    trace: &RankTrace,
    a: &Activity,
    known: &mut HashMap<(Option<StrId>, Option<StrId>), StrId>,
    names: &mut Interner,
) -> StrId {
    let args = &trace.columns.args;
    let (grid, block) = (args.text(Arg::Grid, a.row), args.text(Arg::Block, a.row));
    *known.entry((grid, block)).or_insert_with(|| match (grid, block) {
        (None, None) => StrId::EMPTY,
        _ => {
            let text = |id: Option<StrId>| id.map_or("-", |i| trace.text(i));
            names.intern(&format!("grid {} block {}", text(grid), text(block)))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ```text
    ///   cuts      0         10        20
    ///   A         [...........)            12 long
    ///   B                      [..)        12..15
    /// ```
    #[test]
    fn a_stretch_over_a_cut_counts_once_and_its_time_is_divided() {
        let key = |i| (TimeUse::Kernel, StrId(i), StrId::EMPTY);
        let local = Local::build(
            vec![0, 10, 20],
            vec![(Span::new(0, 12), key(1), 1), (Span::new(12, 15), key(2), 1)],
        );
        let entry = |name, count, time| LocalEntry {
            what: TimeUse::Kernel,
            name: StrId(name),
            detail: StrId::EMPTY,
            count,
            time,
        };
        let entries = |a, b| local.entries_in(Span::new(a, b)).collect::<Vec<_>>();
        assert_eq!(entries(0, 10), [entry(1, 1, 10)]);
        assert_eq!(entries(10, 20), [entry(2, 1, 3), entry(1, 0, 2)]);
        assert_eq!(entries(0, 20).len(), 3);
    }

    #[test]
    fn a_kernel_that_rounding_lets_begin_before_a_cut_counts_behind_it() {
        let key = (TimeUse::Kernel, StrId(1), StrId::EMPTY);
        let local = Local::build(vec![0, 10_000, 20_000], vec![(Span::new(9_999, 15_000), key, 1)]);
        let counts = |a, b| local.entries_in(Span::new(a, b)).map(|e| (e.count, e.time)).collect::<Vec<_>>();
        assert_eq!((counts(0, 10_000), counts(10_000, 20_000)), (vec![(0, 1)], vec![(1, 5_000)]));
    }

    #[test]
    fn what_is_not_kept_by_name_is_summed() {
        let stretch = |i: i64| {
            (
                Span::new(i, i + 1),
                (TimeUse::Host(HostActivity::Operator), StrId(i as u32 + 1), StrId::EMPTY),
                1,
            )
        };
        let local = Local::build(vec![0, 100], (0..100).map(stretch).collect());
        let all: Vec<LocalEntry> = local.entries_in(Span::new(0, 100)).collect();
        assert_eq!((all.len(), all.iter().map(|e| e.time).sum::<Ns>()), (KEPT + 1, 100));
        assert_eq!(all.last().map(|e| (e.name, e.count)), Some((StrId::EMPTY, 84)));
    }
}
