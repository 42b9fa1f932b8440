//! The time axis of an overlay: its base time, and the conversion of each rank's times to it. Times in ns.

use crate::overlay::copy::retime::Retime;
use crate::overlay::plan::DrawnSource;
use hta_base::units::Ns;
use hta_job::Clock;
use hta_read::kineto::number::Fraction;

/// Smallest start that can be a time since 1970, ns. Files with smaller starts have an unknown origin.
const EPOCH_MIN: Ns = 100_000_000_000_000_000;

/// Largest amount by which a clock offset may move a first start before the base and still lower the base,
/// ns.
const LARGEST_DEFICIT: Ns = 3_600_000_000_000;
/// The base is lowered in multiples of this (whole seconds), ns.
const BASE_GRAIN: Ns = 1_000_000_000;

/// Conversion of one rank's times to the axis.
pub struct RankAxis {
    /// `baseTimeNanoseconds` of the rank's file, ns: absolute time minus time in the file.
    base: Ns,
    clock: Option<Clock>,
    /// Added to every time of the file, ns, without the clock offset.
    shift: Ns,
    is_unpadded: bool,
}

impl RankAxis {
    /// Converts an absolute time of the rank's own clock, as analyses use it, to the axis of the overlay.
    pub fn at(&self, t: Ns) -> Ns {
        let aligned = self.clock.map_or(t, |c| c.aligned(t));
        aligned.saturating_sub(self.base).saturating_add(self.shift)
    }

    /// Added to a time of the file to make it absolute, ns.
    pub fn base(&self) -> Ns {
        self.base
    }

    /// The change to apply to the times of the file.
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
            _ if self.is_unpadded => {
                Retime::Map { clock: Box::new(move |t| t.saturating_add(shift)), fraction }
            }
            _ => match shift.saturating_sub(self.offset()) {
                0 => Retime::Keep,
                by => Retime::Shift(by),
            },
        }
    }

    /// The constant clock offset that is subtracted, ns.
    pub fn offset(&self) -> Ns {
        self.clock.map_or(0, |c| c.offset)
    }

    /// The amount added to every time of the file, ns; `None` if it differs between times.
    pub fn constant_shift(&self) -> Option<Ns> {
        (!self.clock.is_some_and(|c| c.is_linear)).then(|| self.shift.saturating_sub(self.offset()))
    }
}

pub struct OverlayAxis {
    /// `baseTimeNanoseconds` of the overlay; `None` if the origin is unknown.
    pub base: Option<Ns>,
    /// One entry per source, in the order of the sources.
    pub placed: Vec<RankAxis>,
    /// Ranks of unknown origin that are placed at the start of the first rank with a known origin.
    pub moved: Vec<u32>,
}

impl OverlayAxis {
    /// Builds a common axis for `sources`. A single rank keeps its own axis.
    pub fn new(sources: &[&DrawnSource], clocks: &[(u32, Clock)]) -> Self {
        let base_of = |s: &DrawnSource| s.surveyed.meta.base_ns;
        let unknown =
            |s: &DrawnSource| base_of(s).is_none() && s.surveyed.survey.last.is_none_or(|t| t < EPOCH_MIN);
        let mut base = sources.iter().filter_map(|s| base_of(s)).min();
        let mixed = sources.iter().any(|s| unknown(s)) && !sources.iter().all(|s| unknown(s));
        let mut placed: Vec<RankAxis> = sources
            .iter()
            .map(|s| RankAxis {
                base: base_of(s).unwrap_or(0),
                clock: clocks.iter().find(|(r, c)| *r == s.task.rank && c.is_applied).map(|(_, c)| *c),
                shift: base_of(s).unwrap_or(0).saturating_sub(base.unwrap_or(0)),
                is_unpadded: s.surveyed.is_unpadded,
            })
            .collect();
        let first =
            |s: &DrawnSource, p: &RankAxis| s.surveyed.survey.first.map(|t| p.at(t.saturating_add(p.base)));
        let mut moved = Vec::new();
        if mixed {
            let start = sources
                .iter()
                .zip(&placed)
                .filter(|(s, _)| !unknown(s))
                .filter_map(|(s, p)| first(s, p))
                .min();
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
