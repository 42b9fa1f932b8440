//! The clocks of slower devices in words: by level, with those that they are compared with.

use crate::clocks::reference::{LOWER_MILLE, is_below};
use crate::clocks::slower::{SlowerClock, peers_of};
use crate::clocks::words::megahertz;
use hta_base::order_statistics::{median, median_of_sorted};
use hta_job::Job;
use std::collections::BTreeSet;

/// Most levels that are told one by one.
const LEVELS: usize = 3;

/// The clocks and the lengths of kernels of slower devices.
pub(crate) struct SlowerWords {
    /// `rank 3 runs at 1,410 MHz, the others at 1,980`, with a small letter.
    pub(crate) clocks: String,
    /// `its kernels are 1.40 x longer`.
    pub(crate) longer: String,
    /// Whether their clocks are apart from each other.
    pub(crate) has_levels: bool,
}

/// Devices of about the same clock, Hz.
struct ClockLevel {
    ranks: BTreeSet<u32>,
    clock: i64,
    longer: f64,
}

impl SlowerWords {
    /// `named`: the ranks of all, in words.
    pub(crate) fn new(job: &Job, slower: &[&SlowerClock], named: &str) -> Self {
        let levels = levels(job, slower);
        let others = median(&mut slower.iter().map(|s| s.others).collect::<Vec<i64>>()).unwrap_or(0);
        let beside = format!("{} at {}", others_named(job, slower), megahertz(others));
        let is_one = levels.iter().map(|l| l.ranks.len()).sum::<usize>() == 1;
        let (run, kernels) = if is_one { ("runs", "its kernels are") } else { ("run", "their kernels are") };
        let (own, longer) = match &levels[..] {
            [level] => {
                (format!("{named} {run} at {} MHz", megahertz(level.clock)), format!("{:.2}", level.longer))
            }
            [low, .., high] if levels.len() > LEVELS => (
                format!("{named} {run} at {} to {} MHz", megahertz(low.clock), megahertz(high.clock)),
                format!("{:.2} to {:.2}", high.longer, low.longer),
            ),
            all => {
                let one = |(i, level): (usize, &ClockLevel)| {
                    let ranks: Vec<u32> = level.ranks.iter().copied().collect();
                    let run = if ranks.len() == 1 { "runs" } else { "run" };
                    let (run, unit) = if i == 0 { (format!(" {run}"), " MHz") } else { (String::new(), "") };
                    format!("{}{run} at {}{unit}", job.words.plain(&ranks), megahertz(level.clock))
                };
                let longer: Vec<String> = all.iter().map(|l| format!("{:.2}", l.longer)).collect();
                (all.iter().enumerate().map(one).collect::<Vec<_>>().join(", "), listed(&longer))
            }
        };
        Self {
            clocks: format!("{own}, {beside}"),
            longer: format!("{kernels} {longer} x longer"),
            has_levels: levels.len() > 1,
        }
    }
}

/// `1.40, 1.20 and 1.10`.
fn listed(all: &[String]) -> String {
    match all {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => all.concat(),
    }
}

/// The levels, the lowest first. Clocks that are not apart from the next are of one level.
fn levels(job: &Job, slower: &[&SlowerClock]) -> Vec<ClockLevel> {
    let mut all: Vec<&SlowerClock> = slower.to_vec();
    all.sort_by_key(|s| (s.own, s.place));
    let level = |of: &[&SlowerClock]| {
        let mut longer: Vec<f64> = of.iter().map(|s| s.longer).collect();
        longer.sort_by(f64::total_cmp);
        ClockLevel {
            ranks: of.iter().filter_map(|s| Some(job.parts.get(s.place.0 as usize)?.rank)).collect(),
            clock: median(&mut of.iter().map(|s| s.own).collect::<Vec<i64>>()).unwrap_or(0),
            longer: median_of_sorted(&longer).unwrap_or(1.0),
        }
    };
    all.chunk_by(|a, b| !is_below(a.own, b.own, LOWER_MILLE)).map(level).collect()
}

/// Those with which they are compared. Fewer than the slower ones, or not all of the rest, are named.
fn others_named(job: &Job, slower: &[&SlowerClock]) -> String {
    let rank = |part: u32| job.parts.get(part as usize).map(|p| p.rank);
    let own: BTreeSet<u32> = slower.iter().filter_map(|s| rank(s.place.0)).collect();
    let others: BTreeSet<u32> = peers_of(slower).into_iter().filter_map(|p| rank(p.0)).collect();
    let others: Vec<u32> = others.difference(&own).copied().collect();
    let are_all = own.len() + others.len() == job.parts.len();
    match others.len() {
        0 => "other devices".to_string(),
        n if are_all && n > 1 && n >= own.len() => "the others".to_string(),
        _ => job.words.plain(&others),
    }
}
