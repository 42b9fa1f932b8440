//! Bandwidth over time: at each instant the sum of size / duration over the running copies.
//!
//! ```text
//!   copy a, 60 B    [=====)          6 ns: 10 B/ns
//!   copy b, 20 B       [===)         4 ns:  5 B/ns
//!   value           10.15..5.0
//! ```
//!
//! Bytes per ns are GB/s (1e9). Rates are added and subtracted as integer multiples of 2^-48 B/ns, so the sum
//! returns exactly to zero after the last copy, and the integral over time, rounded to bytes, is exactly the
//! bytes of the copies with a duration (as long as they last less than a day together).

use crate::copies::copy::Copy;
use hta_base::units::Ns;

/// 1 B/ns.
const ONE: i128 = 1 << 48;

/// The values from one instant on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bandwidth {
    pub(crate) at: Ns,
    rate: i128,
    /// Number of running copies of known size.
    pub(crate) sized: u32,
    /// Number of running copies of unknown size.
    pub(crate) unsized_: u32,
}

impl Bandwidth {
    /// GB/s; `None` while only copies of unknown size run.
    pub(crate) fn gb_per_s(self) -> Option<f64> {
        (self.sized > 0 || self.unsized_ == 0).then(|| self.rate as f64 / ONE as f64)
    }
}

/// The combined values of the copies, one per instant at which they change; 0 before the first, and the last
/// is 0.
pub(crate) fn bandwidth<'a>(copies: impl Iterator<Item = &'a Copy>) -> Vec<Bandwidth> {
    let mut edges: Vec<(Ns, i128, i64, i64)> = Vec::new();
    for c in copies.filter(|c| !c.span.is_empty()) {
        let rate = c.bytes.map_or(0, |b| i128::from(b) * ONE / i128::from(c.span.len()));
        let (sized, unsized_) = (i64::from(c.bytes.is_some()), i64::from(c.bytes.is_none()));
        edges.push((c.span.start, rate, sized, unsized_));
        edges.push((c.span.end, -rate, -sized, -unsized_));
    }
    edges.sort_unstable();
    let (mut rate, mut sized, mut unsized_) = (0i128, 0i64, 0i64);
    let mut out: Vec<Bandwidth> = Vec::new();
    for same in edges.chunk_by(|a, b| a.0 == b.0) {
        for e in same {
            rate = rate.saturating_add(e.1);
            sized += e.2;
            unsized_ += e.3;
        }
        let now = Bandwidth { at: same[0].0, rate, sized: sized as u32, unsized_: unsized_ as u32 };
        let before = out.last().map_or((0, 0, 0), |b| (b.rate, b.sized, b.unsized_));
        if before != (now.rate, now.sized, now.unsized_) {
            out.push(now);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::copy::Api;
    use hta_base::units::Span;
    use proptest::prelude::*;

    fn copy(start: Ns, dur: Ns, bytes: Option<u64>) -> Copy {
        Copy {
            activity: 0,
            span: Span::new(start, start + dur),
            direction: "HtoD",
            source: None,
            target: None,
            bytes,
            api: Api::Async,
            call: None,
            blocks: None,
        }
    }

    /// Bytes under the curve, rounded.
    fn integral(points: &[Bandwidth]) -> i128 {
        let sum: i128 = points.windows(2).map(|w| w[0].rate * i128::from(w[1].at - w[0].at)).sum();
        (sum + ONE / 2) / ONE
    }

    #[test]
    fn the_picture_above_holds() {
        let points = bandwidth([copy(0, 6, Some(60)), copy(3, 4, Some(20))].iter());
        let values: Vec<_> = points.iter().map(|p| (p.at, p.gb_per_s())).collect();
        assert_eq!(values, [(0, Some(10.0)), (3, Some(15.0)), (6, Some(5.0)), (7, Some(0.0))]);
        assert_eq!(integral(&points), 80);
    }

    #[test]
    fn a_copy_of_unknown_size_has_no_bandwidth() {
        let points = bandwidth([copy(0, 4, None), copy(2, 4, Some(8)), copy(9, 0, Some(8))].iter());
        let values: Vec<_> = points.iter().map(|p| (p.at, p.gb_per_s())).collect();
        assert_eq!(values, [(0, None), (2, Some(2.0)), (4, Some(2.0)), (6, Some(0.0))]);
    }

    proptest! {
        #[test]
        fn the_integral_is_the_bytes_of_copies_with_length(
            all in prop::collection::vec((0i64..1_000, 0i64..5_000, 0u64..1 << 40), 0..40),
        ) {
            let copies: Vec<Copy> = all.iter().map(|(s, d, b)| copy(*s, *d, Some(*b))).collect();
            let points = bandwidth(copies.iter());
            let bytes: u64 = all.iter().filter(|c| c.1 > 0).map(|c| c.2).sum();
            prop_assert_eq!(integral(&points), i128::from(bytes));
            prop_assert!(points.last().is_none_or(|p| p.rate == 0 && p.sized == 0));
            for t in 0..6_000 {
                let running = |c: &&Copy| c.span.holds(t);
                let want: f64 = copies.iter().filter(running).map(|c| c.bytes.unwrap_or(0) as f64 / c.span.len() as f64).sum();
                let at = points.partition_point(|p| p.at <= t);
                let got = at.checked_sub(1).map_or(Some(0.0), |i| points[i].gb_per_s()).unwrap_or(-1.0);
                prop_assert!((got - want).abs() <= 1e-9 * want.max(1.0), "{} {} {}", t, got, want);
            }
        }
    }
}
