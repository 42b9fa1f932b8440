//! The time axis of an overlay: whose base its times count from, and how each rank's times get there.

use crate::job::Clock;
use crate::overlay::copy::retime::Retime;
use crate::overlay::plan::Source;
use crate::read::kineto::number::Fraction;
use crate::units::Ns;

/// Starts below this many ns cannot be since 1970: the file's origin is unknown.
const EPOCH_MIN: Ns = 100_000_000_000_000_000;

/// A first start that an offset would move before the base by less than this moves the base.
const LARGEST_DEFICIT: Ns = 3_600_000_000_000;
/// The base moves by whole ones of these.
const BASE_GRAIN: Ns = 1_000_000_000;

/// How one rank's times come to the axis.
pub struct Placed {
    /// From the absolute time of the rank's own trace to the file's base.
    base: Ns,
    clock: Option<Clock>,
    /// What is added to a time of the file, the clock's offset apart.
    shift: Ns,
    is_unpadded: bool,
}

impl Placed {
    /// A time of the rank as analyses give it (absolute, its own clock), on the axis of the overlay.
    pub fn at(&self, t: Ns) -> Ns {
        let aligned = self.clock.map_or(t, |c| c.aligned(t));
        aligned.saturating_sub(self.base).saturating_add(self.shift)
    }

    /// What is added to a time of the file to make it absolute, ns.
    pub fn base(&self) -> Ns {
        self.base
    }

    /// What happens to the times of the file.
    pub fn retime(&self) -> Retime {
        let fraction = if self.is_unpadded { Fraction::Unpadded } else { Fraction::Decimal };
        let (base, clock, shift) = (self.base, self.clock, self.shift);
        match clock {
            Some(c) if c.is_linear || self.is_unpadded => Retime::Map {
                clock: Box::new(move |t| {
                    let absolute = t.saturating_add(base);
                    c.aligned(absolute).saturating_sub(base).saturating_add(shift)
                }),
                fraction,
            },
            _ if self.is_unpadded => Retime::Map { clock: Box::new(move |t| t.saturating_add(shift)), fraction },
            _ => match shift.saturating_sub(self.offset()) {
                0 => Retime::Keep,
                by => Retime::Shift(by),
            },
        }
    }

    /// The offset that is subtracted, ns.
    pub fn offset(&self) -> Ns {
        self.clock.map_or(0, |c| c.offset)
    }

    /// ns added to every time of the file, where that is one number.
    pub fn constant_shift(&self) -> Option<Ns> {
        (!self.clock.is_some_and(|c| c.is_linear)).then(|| self.shift.saturating_sub(self.offset()))
    }
}

/// The axis, and the ranks on it.
pub struct Axis {
    /// `baseTimeNanoseconds` of the overlay.
    pub base: Option<Ns>,
    /// In the order of the sources.
    pub placed: Vec<Placed>,
    /// Ranks whose origin is unknown while others' is not: they begin with the first of those.
    pub moved: Vec<u32>,
}

impl Axis {
    /// One axis for all. A single rank keeps its own.
    pub fn new(sources: &[&Source], clocks: &[(u32, Clock)]) -> Self {
        let base_of = |s: &Source| s.surveyed.meta.base_ns;
        let unknown = |s: &Source| base_of(s).is_none() && s.surveyed.survey.last.is_none_or(|t| t < EPOCH_MIN);
        let mut base = sources.iter().filter_map(|s| base_of(s)).min();
        let mixed = sources.iter().any(|s| unknown(s)) && !sources.iter().all(|s| unknown(s));
        let mut placed: Vec<Placed> = sources
            .iter()
            .map(|s| Placed {
                base: base_of(s).unwrap_or(0),
                clock: clocks.iter().find(|(r, c)| *r == s.task.rank && c.is_applied).map(|(_, c)| *c),
                shift: base_of(s).unwrap_or(0).saturating_sub(base.unwrap_or(0)),
                is_unpadded: s.surveyed.is_unpadded,
            })
            .collect();
        let first = |s: &Source, p: &Placed| s.surveyed.survey.first.map(|t| p.at(t.saturating_add(p.base)));
        let mut moved = Vec::new();
        if mixed {
            let start = sources.iter().zip(&placed).filter(|(s, _)| !unknown(s)).filter_map(|(s, p)| first(s, p)).min();
            for (s, p) in sources.iter().zip(&mut placed).filter(|(s, _)| unknown(s)) {
                let own = first(s, p).unwrap_or(0);
                p.shift = p.shift.saturating_add(start.unwrap_or(0).saturating_sub(own));
                moved.push(s.task.rank);
            }
        }
        let earliest = sources.iter().zip(&placed).filter_map(|(s, p)| first(s, p)).min().unwrap_or(0);
        if let Some(b) = &mut base
            && sources.len() > 1
            && (-LARGEST_DEFICIT..0).contains(&earliest)
        {
            let by = (BASE_GRAIN - 1 - earliest) / BASE_GRAIN * BASE_GRAIN;
            *b = b.saturating_sub(by);
            placed.iter_mut().for_each(|p| p.shift = p.shift.saturating_add(by));
        }
        Self { base, placed, moved }
    }
}
