//! GPU activities that cannot have lasted as long as recorded: later ones of their stream, which wait for
//! them, ran meanwhile. Times in ns.
//!
//! ```text
//!   stream    [a==)[b====================================)
//!                     [c==)   [d==)   [e==)   [f==)            b ends where c starts
//!   becomes   [a==)[b)[c==)   [d==)   [e==)   [f==)
//! ```
//!
//! Activities of one graph launch may run side by side, and a kernel may start early by programmatic launch.
//! Streams of different processes are different streams.

use crate::activity::Activity;
use crate::args::Arg;
use crate::events::Columns;
use crate::own_streams::OwnStreams;
use hta_base::health::{Counter, Health};
use hta_base::units::{Ns, fmt_ns};

/// Fewest later activities that an impossible one covers.
const COVERED: u32 = 3;

/// An activity may overlap later ones by this, ns: programmatic launch starts a kernel before the last one
/// has ended.
const EARLY: Ns = 10_000;

/// Largest number of passes; one pass finds what no longer activity hides.
const PASSES: usize = 8;

/// What was cut off activities that are too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overruns {
    /// Number of activities.
    pub count: u64,
    /// Their time after the next start on their stream, ns.
    pub cut: Ns,
}

/// The activity of a stream with the latest end so far.
#[derive(Debug, Clone, Copy)]
struct Longest {
    at: usize,
    end: Ns,
    /// Start of the first later activity that it covers, of which there are `covered`.
    next: Ns,
    covered: u32,
}

/// Cuts activities that are too long. `all` is in order of start.
pub(crate) fn cut(all: &mut [Activity], c: &Columns, health: &mut Health) -> Overruns {
    let mut found = Overruns::default();
    let mut example = String::new();
    let mut kept = 0;
    for pass in 0..PASSES {
        let (overlaps, too_long) = survey(all, c);
        let (certain, few): (Vec<Longest>, Vec<Longest>) =
            too_long.into_iter().partition(|l| l.covered >= COVERED);
        if pass == 0 {
            health.add(Counter::StreamOverlap, overlaps, None, "");
            kept = few.len() as u64;
        }
        for longest in &certain {
            let Some(a) = all.get_mut(longest.at) else { continue };
            found.count += 1;
            found.cut = found.cut.saturating_add(longest.end - longest.next);
            if example.is_empty() {
                let (name, len) = (c.strings.get(a.name), fmt_ns(a.span.len()));
                example = format!("{name}, {len}, over {} later ones", longest.covered);
            }
            a.span.end = longest.next;
        }
        if certain.is_empty() {
            break;
        }
    }
    health.add(Counter::DurSuspect, found.count + kept, None, &example);
    health.add(Counter::DurCut, found.count, None, &example);
    found
}

/// The number of activities that start before an earlier one of their stream has ended, and those that last
/// for most of their length after a later one has started.
fn survey(all: &[Activity], c: &Columns) -> (u64, Vec<Longest>) {
    let mut streams: Vec<Longest> = Vec::new();
    let mut numbers = OwnStreams::default();
    let (mut overlaps, mut too_long) = (0, Vec::new());
    let is_too_long = |l: &Longest| l.end - l.next > EARLY.max((l.end - all[l.at].span.start) / 2);
    for (at, a) in all.iter().enumerate().filter(|(_, a)| !a.span.is_empty()) {
        let new = Longest { at, end: a.span.end, next: a.span.end, covered: 0 };
        let Some(longest) = streams.get_mut(numbers.number(a, c)) else {
            streams.push(new);
            continue;
        };
        if a.span.start < longest.end {
            overlaps += 1;
            // MTIA and some versions for XPU record no streams.
            if a.stream().is_some() && !is_one_launch(&all[longest.at], a, c) {
                longest.next = if longest.covered == 0 { a.span.start } else { longest.next };
                longest.covered += 1;
            }
        }
        if a.span.end >= longest.end {
            too_long.extend(Some(*longest).filter(&is_too_long));
            *longest = new;
        }
    }
    too_long.extend(streams.into_iter().filter(&is_too_long));
    (overlaps, too_long)
}

/// Whether one call launched both, as a graph.
fn is_one_launch(a: &Activity, b: &Activity, c: &Columns) -> bool {
    let correlation = |a: &Activity| c.args.uint(Arg::Correlation, a.row).filter(|id| *id != 0);
    correlation(a).is_some_and(|id| correlation(b) == Some(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::category::Class;
    use crate::events::ColumnsBuilder;
    use crate::strings::StrId;
    use hta_base::units::Span;

    const US: Ns = 1_000;

    /// Cuts activities of stream 7, given as start, end (us) and correlation. Returns what was found, and
    /// their ends.
    fn cut_all(activities: &[(Ns, Ns, u64)]) -> (Overruns, Vec<Ns>) {
        let mut c = ColumnsBuilder::default();
        let mut all: Vec<Activity> = Vec::new();
        for (row, (start, end, correlation)) in (0u32..).zip(activities) {
            c.args.column_mut(Arg::Correlation).push(row, *correlation);
            let span = Span::new(start * US, end * US);
            all.push(Activity::new(row, span, StrId::EMPTY, Class::Kernel).on(0, 7));
        }
        let mut health = Health::default();
        let found = cut(&mut all, &c.finish(), &mut health);
        assert_eq!(health.count(Counter::DurCut), found.count);
        (found, all.iter().map(|a| a.span.end / US).collect())
    }

    /// ```text
    ///   us   100       200       300       400       500
    ///        [b===========================================)
    ///          [c=)      [d=)      [e=)
    /// ```
    #[test]
    fn an_activity_over_three_later_ones_ends_where_the_next_one_starts() {
        let (found, ends) = cut_all(&[(100, 500, 1), (120, 150, 2), (200, 230, 3), (300, 330, 4)]);
        assert_eq!((found.count, found.cut), (1, 380 * US));
        assert_eq!(ends, [120, 150, 230, 330]);
    }

    #[test]
    fn one_that_an_impossible_one_hides_is_found_after_it() {
        let all = [(100, 900, 1), (110, 500, 2), (150, 160, 3), (200, 210, 4), (300, 310, 5)];
        assert_eq!(cut_all(&all).1, [110, 150, 160, 210, 310]);
    }

    #[test]
    fn short_overlaps_and_activities_of_one_launch_are_kept() {
        let kept = |all: &[(Ns, Ns, u64)]| cut_all(all).0 == Overruns::default();
        assert!(kept(&[(100, 500, 1), (120, 150, 2), (200, 230, 3)]), "two later ones");
        assert!(kept(&[(100, 115, 1), (106, 116, 2), (108, 117, 3), (110, 118, 4)]), "early starts");
        assert!(kept(&[(100, 500, 1), (400, 410, 2), (420, 430, 3), (440, 450, 4)]), "only near the end");
        assert!(kept(&[(100, 500, 1), (120, 150, 1), (200, 230, 1), (300, 330, 1)]), "a graph");
    }
}
