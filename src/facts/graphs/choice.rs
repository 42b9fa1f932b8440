//! The capture from which a sequence of replayed activities comes, decided by content: names in order, never
//! the size of the batch alone, because a server captures many sizes whose graphs may be equal.
//!
//! | content | answer |
//! |---|---|
//! | equal to that of one capture | exact |
//! | equal to that of several | exact; which one follows from the batch and the place among equal replays |
//! | 95 % of it in the order of one capture, lengths within 5 % | partial: the rest stays unnamed |
//! | captures without names (CUDA): length and kinds equal, one stream, only one capture of the length | by count |
//! | else | none, with the closest capture |

use super::alignment::align;
use super::symbols::Symbol;
use hashbrown::HashMap;
use std::sync::Arc;

/// Share of the replay that must be found in a capture in order, percent.
const LEAST_PCT: usize = 95;

/// Largest difference of the lengths, percent of the replay.
const LENGTH_PCT: usize = 5;

/// A capture that a replay may come from.
pub(crate) struct CaptureCandidate {
    pub(crate) symbols: Vec<Symbol>,
    /// Requests for which its kernels are launched.
    pub(crate) padded_batch: Option<u64>,
}

impl CaptureCandidate {
    fn is_nameless(&self) -> bool {
        self.symbols.contains(&Symbol::Kernel(None))
    }
}

/// Why a replay has no capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reject {
    /// None was given.
    NoCapture,
    /// The closest one differs too much in length.
    Length,
    /// The closest one of a similar length differs in too many names.
    Names,
    /// Captures without names cannot be told apart, or do not fit.
    Nameless,
    /// Several captures fit equally well.
    Ambiguous,
}

impl Reject {
    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Reject::NoCapture => "no capture",
            Reject::Length => "another length",
            Reject::Names => "other kernels",
            Reject::Nameless => "captures without names",
            Reject::Ambiguous => "several fit equally",
        }
    }
}

/// Partners by index in the replay: index of the captured call.
pub(crate) type Partners = Arc<[Option<u32>]>;

/// The captures that fit a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fit {
    /// All with this content, in order of their capture.
    Exact(Vec<u32>),
    /// The best ones, with the partners in each.
    Partial(Vec<(u32, Partners)>),
    ByCount(u32),
    /// With the capture that comes closest and the number of activities that have a partner in it.
    Rejected(Reject, Option<(u32, usize)>),
}

/// All captures that are offered to a rank.
pub(crate) struct Candidates {
    pub(crate) all: Vec<CaptureCandidate>,
    /// Indices by content without directions.
    by_content: HashMap<Vec<Symbol>, Vec<u32>>,
}

impl Candidates {
    pub(crate) fn new(all: Vec<CaptureCandidate>) -> Self {
        let mut by_content: HashMap<Vec<Symbol>, Vec<u32>> = HashMap::new();
        for (candidate, i) in all.iter().zip(0..) {
            let key = candidate.symbols.iter().map(|s| s.without_direction()).collect();
            by_content.entry(key).or_default().push(i);
        }
        Self { all, by_content }
    }

    /// The captures that fit a sequence; `is_one_stream` if all its activities ran on one.
    pub(crate) fn fit(&self, sequence: &[Symbol], is_one_stream: bool) -> Fit {
        if self.all.is_empty() {
            return Fit::Rejected(Reject::NoCapture, None);
        }
        let key: Vec<Symbol> = sequence.iter().map(|s| s.without_direction()).collect();
        let is_like = |i: &u32| self.symbols(*i).iter().zip(sequence).all(|(a, b)| a.is_like(*b));
        let equal: Vec<u32> =
            self.by_content.get(&key).into_iter().flatten().copied().filter(is_like).collect();
        if !equal.is_empty() {
            return Fit::Exact(equal);
        }
        let nameless = self.by_count(sequence, is_one_stream);
        match (self.partial(sequence), nameless) {
            (partial @ Fit::Partial(_), _) => partial,
            (_, Some(Ok(i))) => Fit::ByCount(i),
            (Fit::Rejected(..), Some(Err(closest))) => Fit::Rejected(Reject::Nameless, Some((closest, 0))),
            (rejected, _) => rejected,
        }
    }

    fn symbols(&self, i: u32) -> &[Symbol] {
        self.all.get(i as usize).map_or(&[], |c| &c.symbols)
    }

    fn partial(&self, sequence: &[Symbol]) -> Fit {
        let n = sequence.len();
        let least = (n * LEAST_PCT).div_ceil(100);
        let named = || (0..self.all.len() as u32).filter(|i| !self.all[*i as usize].is_nameless());
        let mut best: (usize, Vec<(u32, Partners)>) = (0, Vec::new());
        let mut closest: Option<(u32, usize)> = None;
        for i in named().filter(|i: &u32| self.symbols(*i).len().abs_diff(n) * 100 <= n * LENGTH_PCT) {
            let captured = self.symbols(i);
            // Twice the differences that are allowed, so that a near miss is told with its count.
            let most = 2 * (n + captured.len() - 2 * least.min(captured.len()));
            let Some(pairs) = align(sequence, captured, most) else {
                closest = closest.or(Some((i, 0)));
                continue;
            };
            let found = pairs.iter().flatten().count();
            if closest.is_none_or(|c| found > c.1) {
                closest = Some((i, found));
            }
            if found < least || found < best.0 {
                continue;
            }
            if found > best.0 {
                best = (found, Vec::new());
            }
            best.1.push((i, pairs.into()));
        }
        if !best.1.is_empty() {
            return Fit::Partial(best.1);
        }
        if closest.is_some() {
            return Fit::Rejected(Reject::Names, closest);
        }
        let nearest = named().min_by_key(|i| (self.symbols(*i).len().abs_diff(n), *i));
        Fit::Rejected(Reject::Length, nearest.map(|i| (i, 0)))
    }

    /// The capture without names that fits by length and kinds; the closest one if none does; `None` if all
    /// have names.
    fn by_count(&self, sequence: &[Symbol], is_one_stream: bool) -> Option<Result<u32, u32>> {
        let n = sequence.len();
        let nameless = || (0..self.all.len() as u32).filter(|i| self.all[*i as usize].is_nameless());
        let closest = nameless().min_by_key(|i| (self.symbols(*i).len().abs_diff(n), *i))?;
        let captured = self.symbols(closest);
        let is_only_one = self.all.iter().filter(|c| c.symbols.len() == n).count() == 1;
        let same_kinds =
            captured.len() == n && captured.iter().zip(sequence).all(|(a, b)| a.kind() == b.kind());
        Some(if is_one_stream && is_only_one && same_kinds { Ok(closest) } else { Err(closest) })
    }
}

/// The capture of a replay among several that fit it equally: those for its batch, and of these the one at
/// its place among the replays of the same content in its iteration.
///
/// `place` is the number of such replays before it, and of all of them. `None` if that does not decide.
pub(crate) fn one_of(
    fitting: &[u32],
    candidates: &Candidates,
    batch: Option<u64>,
    place: (usize, usize),
) -> Option<u32> {
    let padded = |i: &u32| candidates.all.get(*i as usize).and_then(|c| c.padded_batch);
    // The smallest batch that holds the requests.
    let wanted =
        batch.and_then(|requests| fitting.iter().filter_map(padded).filter(|n| *n >= requests).min());
    let left: Vec<u32> = match wanted {
        Some(n) => fitting.iter().copied().filter(|i| padded(i) == Some(n)).collect(),
        None => fitting.to_vec(),
    };
    let (before, all) = place;
    match left.len() {
        0 => None,
        1 => left.first().copied(),
        several if all <= several || all % several == 0 => left.get(before % several).copied(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels(of: &[u32]) -> Vec<Symbol> {
        of.iter().map(|k| Symbol::kernel(*k)).collect()
    }

    fn candidates(of: &[&[u32]]) -> Candidates {
        Candidates::new(
            of.iter().map(|k| CaptureCandidate { symbols: kernels(k), padded_batch: None }).collect(),
        )
    }

    fn upto(n: u32) -> Vec<u32> {
        (0..n).collect()
    }

    #[test]
    fn equal_content_is_exact_whatever_else_fits() {
        let c = candidates(&[&[1, 2, 3], &[1, 2], &[1, 2, 3]]);
        assert_eq!(c.fit(&kernels(&[1, 2, 3]), true), Fit::Exact(vec![0, 2]));
        assert_eq!(c.fit(&kernels(&[1, 2]), false), Fit::Exact(vec![1]));
    }

    #[test]
    fn up_to_a_twentieth_may_differ() {
        let whole = upto(40);
        let c = candidates(&[&whole]);
        let without = |gone: &[usize]| -> Vec<u32> {
            whole.iter().copied().filter(|k| !gone.contains(&(*k as usize))).collect()
        };
        let Fit::Partial(found) = c.fit(&kernels(&without(&[7])), true) else {
            panic!("39 of 40 are enough")
        };
        assert_eq!((found.len(), found[0].0, found[0].1.len()), (1, 0, 39));
        assert_eq!(found[0].1[6..9], [Some(6), Some(8), Some(9)]);
        // 38 of 40: the capture is longer by 5.3 % of the replay.
        assert_eq!(c.fit(&kernels(&without(&[7, 8])), true), Fit::Rejected(Reject::Length, Some((0, 0))));
        // Two of 40 are others: 95 %. Three: 92.5 %.
        let other =
            |from: u32| whole.iter().map(|k| if *k < from { 100 + k } else { *k }).collect::<Vec<_>>();
        assert!(matches!(c.fit(&kernels(&other(2)), true), Fit::Partial(_)));
        assert_eq!(c.fit(&kernels(&other(3)), true), Fit::Rejected(Reject::Names, Some((0, 37))));
        assert_eq!(candidates(&[]).fit(&kernels(&[1]), true), Fit::Rejected(Reject::NoCapture, None));
    }

    #[test]
    fn captures_without_names_fit_by_count_only_if_nothing_else_can() {
        let nameless =
            |n: usize| CaptureCandidate { symbols: vec![Symbol::Kernel(None); n], padded_batch: None };
        let with_copy = |n: usize| {
            let mut c = nameless(n);
            c.symbols[1] = Symbol::Copy(None);
            c
        };
        let g = kernels(&[1, 2, 3]);
        assert_eq!(Candidates::new(vec![nameless(2), nameless(3)]).fit(&g, true), Fit::ByCount(1));
        let rejected = |i| Fit::Rejected(Reject::Nameless, Some((i, 0)));
        assert_eq!(Candidates::new(vec![nameless(3)]).fit(&g, false), rejected(0), "several streams");
        assert_eq!(
            Candidates::new(vec![nameless(3), nameless(3)]).fit(&g, true),
            rejected(0),
            "two of the length"
        );
        assert_eq!(Candidates::new(vec![with_copy(3)]).fit(&g, true), rejected(0), "other kinds");
        assert_eq!(Candidates::new(vec![nameless(4)]).fit(&g, true), rejected(0), "another length");
    }

    #[test]
    fn of_several_the_batch_and_then_the_place_decide() {
        let sized = |batch| CaptureCandidate { symbols: kernels(&[1]), padded_batch: batch };
        let c = Candidates::new(vec![sized(Some(8)), sized(Some(16)), sized(Some(16)), sized(None)]);
        let all = [0, 1, 2, 3];
        assert_eq!(one_of(&all, &c, Some(5), (0, 1)), Some(0));
        assert_eq!(one_of(&all, &c, Some(9), (1, 2)), Some(2));
        // No capture is large enough, or the batch is not known.
        assert_eq!(one_of(&all, &c, Some(99), (3, 4)), Some(3));
        assert_eq!(one_of(&[1, 2], &c, None, (0, 1)), Some(1));
        // Twice around, and a number of replays that says nothing.
        assert_eq!(one_of(&[1, 2], &c, None, (3, 4)), Some(2));
        assert_eq!(one_of(&[1, 2], &c, None, (2, 3)), None);
    }
}
