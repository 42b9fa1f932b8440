//! The GPU work launched inside the annotations of a thread, however deep they are nested.
//!
//! Launches inside a range are consecutive on its thread, so what was launched inside the ranges of a name
//! is a few stretches of launches:
//!
//! ```text
//!   thread     [train................................]
//!                 [forward......]   [backward......]
//!   launches        a  b          c      d              positions 0 to 3
//!   stretches       train 0..4    forward 0..2    backward 3..4
//! ```
//!
//! Walking over the activities of each stretch would be quadratic for deep nesting. Instead the activities
//! of a thread are passed once for each device and window: counts and sums of a stretch are differences of
//! sums over everything before, and its unions follow from the last launch whose activity covers each
//! instant ([`LastCover`]).

use hashbrown::HashMap;
use hta_base::units::{Ns, Span};
use hta_facts::calls::last_cover::LastCover;
use hta_facts::calls::overlapping;
use hta_trace::activity::Activity;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::timeline::{Timeline, WorkClass};
use std::collections::BTreeSet;
use std::rc::Rc;

/// A device, by its place among those that have rows, and a window.
pub(crate) type DeviceWindow = (usize, usize);

/// Launches of a thread inside ranges of one name, as positions `from..until`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) name: StrId,
    pub(crate) from: u32,
    pub(crate) until: u32,
}

/// What a thread launched.
#[derive(Debug, Clone, Default)]
pub(crate) struct AnnotatedLaunches {
    /// Indices of the activities, in order of their launches.
    pub(crate) activities: Vec<u32>,
    /// Those of one name do not overlap; in any order.
    pub(crate) stretches: Vec<Stretch>,
}

/// Lengths of unions of activities, ns: of all of them, and of those of three classes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BusyTimes {
    pub(crate) busy: Ns,
    pub(crate) compute: Ns,
    pub(crate) communication: Ns,
    pub(crate) memory: Ns,
}

impl BusyTimes {
    /// Of activities in any order.
    pub(crate) fn new<'a>(activities: impl Iterator<Item = &'a Activity>) -> Self {
        let timeline = Timeline::new(activities.map(|a| (a.span, a.work)));
        let shares = match timeline.segments() {
            [first, .., last] => timeline.shares_in(first.span.hull(last.span)),
            [only] => timeline.shares_in(only.span),
            [] => Default::default(),
        };
        Self {
            busy: shares.busy(),
            compute: shares.compute(),
            communication: shares.communication(),
            memory: shares.memory(),
        }
    }

    /// Of what was launched in several stretches. The times of each are known; only those whose activities
    /// overlap in time are united again.
    pub(crate) fn of_stretches(trace: &RankTrace, stretches: &mut [StretchWork]) -> Self {
        stretches.sort_unstable_by_key(|s| (s.extent.start, s.extent.end));
        let mut sum = Self::default();
        for run in overlapping(stretches, |s| s.extent) {
            sum.add(match run {
                [one] => one.times,
                several => Self::new(several.iter().flat_map(|s| s.activities(trace))),
            });
        }
        sum
    }

    fn add(&mut self, other: Self) {
        self.busy += other.busy;
        self.compute += other.compute;
        self.communication += other.communication;
        self.memory += other.memory;
    }
}

/// The activities of a stretch on one device and in one window.
pub(crate) struct StretchWork {
    pub(crate) count: u64,
    /// Sum of their lengths.
    pub(crate) gpu: Ns,
    times: BusyTimes,
    /// First start and last end.
    extent: Span,
    /// Indices of all activities there, and the places of those of the stretch.
    all: Rc<[u32]>,
    places: (usize, usize),
}

impl StretchWork {
    fn activities<'a>(&'a self, trace: &'a RankTrace) -> impl Iterator<Item = &'a Activity> {
        let indices = self.all.get(self.places.0..self.places.1).unwrap_or_default();
        indices.iter().filter_map(|&i| trace.activities.get(i as usize))
    }
}

/// What a thread launched on one device and in one window.
#[derive(Default)]
struct CellLaunches {
    cell: DeviceWindow,
    positions: Vec<u32>,
    activities: Vec<u32>,
    /// The stretches that launched some of it, in order of their ends.
    stretches: Vec<Stretch>,
}

impl AnnotatedLaunches {
    /// Calls `found` with the work of each stretch in each cell where it has any. `cells` are those of an
    /// activity; `alone` says for each activity whether it overlaps no other.
    pub(crate) fn measure<C: Iterator<Item = DeviceWindow>>(
        &self,
        (trace, alone): (&RankTrace, &[bool]),
        cells: impl Fn(&Activity) -> C,
        mut found: impl FnMut(DeviceWindow, StrId, StretchWork),
    ) {
        for launches in self.by_cell(trace, cells) {
            let all: Rc<[u32]> = launches.activities.as_slice().into();
            let mut before = CellSums::new(all.len());
            let mut stretches = launches.stretches.iter().peekable();
            for (place, &index) in all.iter().enumerate() {
                before.push(&trace.activities[index as usize], alone[index as usize]);
                let following = launches.positions.get(place + 1).copied().unwrap_or(u32::MAX);
                while let Some(s) = stretches.next_if(|s| s.until <= following) {
                    let from = launches.positions.partition_point(|p| *p < s.from);
                    found(launches.cell, s.name, before.since(from, &all));
                }
            }
        }
    }

    /// The launches of each cell, with the stretches that reach into it.
    fn by_cell<C: Iterator<Item = DeviceWindow>>(
        &self,
        trace: &RankTrace,
        cells: impl Fn(&Activity) -> C,
    ) -> Vec<CellLaunches> {
        let mut numbers: HashMap<DeviceWindow, usize> = HashMap::new();
        let mut by_cell: Vec<CellLaunches> = Vec::new();
        // The last position in each cell, with the number of the cell: a stretch that ends reaches into the
        // cells whose last position it contains.
        let mut last: BTreeSet<(u32, usize)> = BTreeSet::new();
        let mut stretches = self.stretches.clone();
        stretches.sort_unstable_by_key(|s| (s.until, s.from, s.name));
        let mut stretches = stretches.into_iter().peekable();
        for (position, &index) in (0..).zip(&self.activities) {
            for cell in cells(&trace.activities[index as usize]) {
                let number = *numbers.entry(cell).or_insert_with(|| {
                    by_cell.push(CellLaunches { cell, ..CellLaunches::default() });
                    by_cell.len() - 1
                });
                let of = &mut by_cell[number];
                if let Some(&before) = of.positions.last() {
                    last.remove(&(before, number));
                }
                last.insert((position, number));
                of.positions.push(position);
                of.activities.push(index);
            }
            while let Some(s) = stretches.next_if(|s| s.until <= position + 1) {
                last.range((s.from, 0)..).for_each(|&(_, number)| by_cell[number].stretches.push(s));
            }
        }
        by_cell
    }
}

/// Sums over the activities of a cell up to a place.
struct CellSums {
    /// Sums of lengths before each place.
    gpu: Vec<Ns>,
    /// The same of the times of activities that overlap no other.
    alone: Vec<BusyTimes>,
    /// The others: all, and those of each class.
    crowded: LastCover,
    of_class: [LastCover; 3],
    starts: LeastSince,
    /// Least negative ends.
    ends: LeastSince,
}

/// The classes that have a column.
const CLASSES: [WorkClass; 3] = [WorkClass::Compute, WorkClass::Communication, WorkClass::Memory];

impl CellSums {
    fn new(activities: usize) -> Self {
        let cover = || LastCover::new(activities);
        Self {
            gpu: vec![0],
            alone: vec![BusyTimes::default()],
            crowded: cover(),
            of_class: [cover(), cover(), cover()],
            starts: LeastSince::default(),
            ends: LeastSince::default(),
        }
    }

    fn push(&mut self, a: &Activity, is_alone: bool) {
        let place = self.gpu.len() - 1;
        let (mut gpu, mut alone) = (self.gpu[place], self.alone[place]);
        gpu += a.span.len();
        if is_alone {
            let of = |class| if a.work == class { a.span.len() } else { 0 };
            let [compute, communication, memory] = CLASSES.map(of);
            alone.add(BusyTimes { busy: a.span.len(), compute, communication, memory });
        } else {
            self.crowded.put(a.span, place as u32);
            if let Some(class) = CLASSES.iter().position(|c| *c == a.work) {
                self.of_class[class].put(a.span, place as u32);
            }
        }
        self.gpu.push(gpu);
        self.alone.push(alone);
        self.starts.push(place, a.span.start);
        self.ends.push(place, -a.span.end);
    }

    /// The activities from a place on.
    fn since(&self, from: usize, all: &Rc<[u32]>) -> StretchWork {
        let until = self.gpu.len() - 1;
        let (last, first) = (self.alone[until], self.alone[from]);
        let [compute, communication, memory] = self.of_class.each_ref().map(|c| c.since(from as u32));
        StretchWork {
            count: (until - from) as u64,
            gpu: self.gpu[until] - self.gpu[from],
            times: BusyTimes {
                busy: last.busy - first.busy + self.crowded.since(from as u32),
                compute: last.compute - first.compute + compute,
                communication: last.communication - first.communication + communication,
                memory: last.memory - first.memory + memory,
            },
            extent: Span::new(self.starts.since(from), -self.ends.since(from)),
            all: Rc::clone(all),
            places: (from, until),
        }
    }
}

/// The least of the values since any place.
#[derive(Default)]
struct LeastSince {
    /// Places and values, both ascending: those with no lower value behind them.
    kept: Vec<(usize, Ns)>,
}

impl LeastSince {
    fn push(&mut self, place: usize, value: Ns) {
        self.kept.truncate(self.kept.partition_point(|k| k.1 < value));
        self.kept.push((place, value));
    }

    fn since(&self, place: usize) -> Ns {
        self.kept.get(self.kept.partition_point(|k| k.0 < place)).map_or(0, |k| k.1)
    }
}
