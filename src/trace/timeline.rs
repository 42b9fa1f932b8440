//! The classes of work that run on a device at each instant.
//!
//! ```text
//!   compute        CCCCCCCC......CCCC.........
//!   communication  ....KKKKKKKK............KKK
//!   memory         ..........MMMM....MM.......
//!   fused          ...........................     exchange and product in one kernel
//!   segments       |c  |ck |k |km|cm|c|m|.|k |     each with a set of classes
//! ```
//!
//! One sweep gives the segments. Every share of time (compute, exposed communication, overlap, the class
//! sets, idle) is a sum over them, so parts sum to the whole by construction.

use crate::interval::Union;
use hta_base::units::{Ns, Span};

/// Class of an activity; each has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkClass {
    Compute,
    Communication,
    Memory,
    /// Exchange and product in one kernel: nothing in a trace tells its exchange, product and waiting apart.
    Fused,
}

impl WorkClass {
    pub const ALL: [WorkClass; 4] =
        [WorkClass::Compute, WorkClass::Communication, WorkClass::Memory, WorkClass::Fused];

    pub fn name(self) -> &'static str {
        match self {
            WorkClass::Compute => "compute",
            WorkClass::Communication => "communication",
            WorkClass::Memory => "memory",
            WorkClass::Fused => "fused_communication",
        }
    }

    const fn bit(self) -> usize {
        1 << self as usize
    }
}

/// A set of classes that run concurrently: bit 0 compute, 1 communication, 2 memory, 3 fused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkClassSet(pub u8);

impl WorkClassSet {
    /// The non-empty sets, in the order of output: seven without fused kernels, then those with them.
    pub const SETS: [WorkClassSet; 15] = {
        let mut sets = [WorkClassSet(8); 15];
        let plain = [1, 2, 4, 3, 5, 6, 7];
        let mut i = 0;
        while i < plain.len() {
            sets[i] = WorkClassSet(plain[i]);
            sets[i + 8] = WorkClassSet(plain[i] | 8);
            i += 1;
        }
        sets
    };

    pub fn has(self, work: WorkClass) -> bool {
        usize::from(self.0) & work.bit() != 0
    }

    fn is_exposed_communication(self) -> bool {
        const PRODUCTS: u8 = (WorkClass::Compute.bit() | WorkClass::Fused.bit()) as u8;
        self.has(WorkClass::Communication) && self.0 & PRODUCTS == 0
    }

    /// For example `compute+communication`.
    pub fn name(self) -> String {
        let names: Vec<_> = WorkClass::ALL.iter().filter(|w| self.has(**w)).map(|w| w.name()).collect();
        names.join("+")
    }
}

/// Time per set of classes, ns; index 0 ("nothing runs") is always 0 here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimePerSet(pub [Ns; 16]);

impl TimePerSet {
    fn sum(&self, keep: impl Fn(WorkClassSet) -> bool) -> Ns {
        (1..16u8).filter(|s| keep(WorkClassSet(*s))).map(|s| self.0[usize::from(s)]).sum()
    }

    /// Time with exactly this set running, ns.
    pub fn exactly(&self, set: WorkClassSet) -> Ns {
        self.0[usize::from(set.0)]
    }

    /// |C|.
    pub fn compute(&self) -> Ns {
        self.sum(|s| s.has(WorkClass::Compute))
    }

    /// |K|.
    pub fn communication(&self) -> Ns {
        self.sum(|s| s.has(WorkClass::Communication))
    }

    /// |M|.
    pub fn memory(&self) -> Ns {
        self.sum(|s| s.has(WorkClass::Memory))
    }

    /// |F|.
    pub fn fused_total(&self) -> Ns {
        self.sum(|s| s.has(WorkClass::Fused))
    }

    /// |F \ C|.
    pub fn fused(&self) -> Ns {
        self.sum(|s| s.has(WorkClass::Fused) && !s.has(WorkClass::Compute))
    }

    /// |K n F \ C|.
    pub fn beside_fused(&self) -> Ns {
        let is_both = |s: WorkClassSet| s.has(WorkClass::Communication) && s.has(WorkClass::Fused);
        self.sum(|s| is_both(s) && !s.has(WorkClass::Compute))
    }

    /// |K \ (C u F)|.
    pub fn exposed_communication(&self) -> Ns {
        self.sum(WorkClassSet::is_exposed_communication)
    }

    /// |M \ (C u F u K)|.
    pub fn copies(&self) -> Ns {
        self.exactly(WorkClassSet(WorkClass::Memory.bit() as u8))
    }

    /// |K n C|.
    pub fn overlap(&self) -> Ns {
        self.sum(|s| s.has(WorkClass::Communication) && s.has(WorkClass::Compute))
    }

    /// |C u F u K u M|.
    pub fn busy(&self) -> Ns {
        self.sum(|_| true)
    }

    fn add(&mut self, set: WorkClassSet, ns: Ns) {
        self.0[usize::from(set.0)] += ns;
    }
}

/// A stretch of time with one set of classes running (never the empty set).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassSegment {
    pub span: Span,
    pub set: WorkClassSet,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    segments: Vec<ClassSegment>,
    /// Shares of all segments before every `STRIDE`-th segment.
    checkpoints: Vec<TimePerSet>,
}

/// Number of segments between two checkpoints: a window query walks over at most this many at each end.
const STRIDE: usize = 64;

/// Starts (1) and ends (-1) of spans with their values, in order of time, starts before ends. Empty spans are
/// left out.
pub fn edges<T: Copy>(spans: impl IntoIterator<Item = (Span, T)>) -> impl Iterator<Item = (Ns, T, i32)> {
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for (span, of) in spans.into_iter().filter(|(span, _)| !span.is_empty()) {
        starts.push((span.start, of));
        ends.push((span.end, of));
    }
    // Both are nearly sorted.
    starts.sort_by_key(|e| e.0);
    ends.sort_by_key(|e| e.0);
    let (mut starts, mut ends) = (starts.into_iter().peekable(), ends.into_iter().peekable());
    // Nothing ends before it starts, so ends remain last.
    std::iter::from_fn(move || match (starts.peek(), ends.peek()) {
        (Some(s), Some(e)) if s.0 > e.0 => ends.next().map(|(t, of)| (t, of, -1)),
        (Some(_), _) => starts.next().map(|(t, of)| (t, of, 1)),
        (None, _) => ends.next().map(|(t, of)| (t, of, -1)),
    })
}

impl Timeline {
    /// Sweeps over spans with their classes, in any order. Empty spans add no busy time.
    pub fn new(activities: impl IntoIterator<Item = (Span, WorkClass)>) -> Self {
        let mut running = [0i32; 4];
        let mut segments: Vec<ClassSegment> = Vec::new();
        let mut at = 0;
        for (t, work, step) in edges(activities) {
            let set =
                WorkClass::ALL.iter().filter(|w| running[**w as usize] > 0).map(|w| w.bit() as u8).sum();
            if t > at && set != 0 {
                let span = Span::new(at, t);
                match segments.last_mut() {
                    Some(last) if last.span.end == at && last.set == WorkClassSet(set) => last.span.end = t,
                    _ => segments.push(ClassSegment { span, set: WorkClassSet(set) }),
                }
            }
            running[work as usize] += step;
            at = t;
        }
        let mut checkpoints = Vec::with_capacity(segments.len() / STRIDE + 1);
        let mut sum = TimePerSet::default();
        for (i, s) in segments.iter().enumerate() {
            if i % STRIDE == 0 {
                checkpoints.push(sum);
            }
            sum.add(s.set, s.span.len());
        }
        Self { segments, checkpoints }
    }

    pub fn segments(&self) -> &[ClassSegment] {
        &self.segments
    }

    pub fn busy(&self) -> Union {
        Union::new(self.segments.iter().map(|s| s.span))
    }

    pub fn when(&self, work: WorkClass) -> Union {
        Union::new(self.segments.iter().filter(|s| s.set.has(work)).map(|s| s.span))
    }

    /// Exposed communication, K \ (C u F).
    pub fn exposed_communication(&self) -> Union {
        let bare = self.segments.iter().filter(|s| s.set.is_exposed_communication());
        Union::new(bare.map(|s| s.span))
    }

    /// Whether work of a class runs at all.
    pub fn has(&self, work: WorkClass) -> bool {
        self.segments.iter().any(|s| s.set.has(work))
    }

    fn before(&self, t: Ns) -> TimePerSet {
        let i = self.segments.partition_point(|s| s.span.start < t);
        let block = i / STRIDE;
        let Some(mut sum) = self.checkpoints.get(block).or(self.checkpoints.last()).copied() else {
            return TimePerSet::default();
        };
        let from = block.min(self.checkpoints.len() - 1) * STRIDE;
        for s in &self.segments[from..i] {
            sum.add(s.set, s.span.end.min(t) - s.span.start);
        }
        sum
    }

    /// Time per set of classes inside `window`, ns.
    pub fn shares_in(&self, window: Span) -> TimePerSet {
        let mut shares = TimePerSet::default();
        if !window.is_empty() {
            let (a, b) = (self.before(window.start), self.before(window.end));
            for i in 0..16 {
                shares.0[i] = b.0[i] - a.0[i];
            }
        }
        shares
    }

    /// Time per set of classes inside several disjoint windows together, ns.
    pub fn shares_in_all(&self, windows: &[Span]) -> TimePerSet {
        let mut sum = TimePerSet::default();
        for w in windows {
            let part = self.shares_in(*w);
            for i in 0..16 {
                sum.0[i] += part.0[i];
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn activities() -> impl Strategy<Value = Vec<(Span, WorkClass)>> {
        let one =
            (0i64..60, 0i64..12, 0usize..4).prop_map(|(s, d, w)| (Span::new(s, s + d), WorkClass::ALL[w]));
        prop::collection::vec(one, 0..14)
    }

    #[test]
    fn the_picture_above_adds_up() {
        let c = [(0, 8), (14, 18)].map(|(s, e)| (Span::new(s, e), WorkClass::Compute));
        let k = [(4, 12), (24, 27)].map(|(s, e)| (Span::new(s, e), WorkClass::Communication));
        let m = [(10, 14), (18, 20)].map(|(s, e)| (Span::new(s, e), WorkClass::Memory));
        let t = Timeline::new(c.into_iter().chain(k).chain(m));
        let s = t.shares_in(Span::new(0, 27));
        assert_eq!((s.compute(), s.exposed_communication(), s.copies()), (12, 7, 4));
        assert_eq!(27 - s.busy(), 4);
        assert_eq!(s.overlap(), 4);
    }

    proptest! {
        #[test]
        fn shares_match_a_count_of_cells(acts in activities(), w in (0i64..70, 0i64..20)) {
            let w = Span::new(w.0, w.0 + w.1);
            let mut want = TimePerSet::default();
            for t in w.start..w.end {
                let set: u8 = WorkClass::ALL.iter()
                    .filter(|k| acts.iter().any(|(s, a)| a == *k && s.holds(t)))
                    .map(|k| k.bit() as u8).sum();
                want.0[usize::from(set)] += 1;
            }
            want.0[0] = 0;
            let timeline = Timeline::new(acts);
            let got = timeline.shares_in(w);
            prop_assert_eq!(got, want);
            let exposed = got.exposed_communication();
            prop_assert_eq!(got.overlap() + got.beside_fused() + exposed, got.communication());
            prop_assert_eq!(got.compute() + got.fused() + exposed + got.copies(), got.busy());
            prop_assert_eq!(timeline.busy().len_in(w), got.busy());
        }
    }
}
