//! Joins backward operators to their forward operators.
//!
//! If the file has `fwdbwd` flows, each end identifies an operator by thread and start. Otherwise operators
//! are joined by sequence number: the forward operator is the one with thread number 0 that starts last, the
//! backward operators have a thread number above 0. That number is the profiler's own, not a thread id, so
//! the thread it means is inferred: the one that has most of its sequence numbers.

use crate::validator::Validation;
use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Name of the operator that autograd puts around a backward node.
const WRAPPER: &str = "autograd::engine::evaluate_function";

/// Backward operators with their forward operators.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backward {
    /// Pairs (row of the forward operator, row of the backward operator), sorted by the second, which is
    /// unique.
    pub pairs: Vec<(u32, u32)>,
    /// The same, with the backward node itself instead of the operator that autograd puts around it.
    pub nodes: Vec<(u32, u32)>,
    /// Number of backward operators without a forward operator.
    pub unmatched: u64,
    /// `flow` or `sequence`; `None` if neither is recorded.
    pub rule: Option<&'static str>,
}

/// The two ends of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PairEnd {
    Forward,
    Backward,
}

impl Backward {
    pub(crate) fn new(trace: &RankTrace) -> Self {
        let (mut found, mut unmatched, rule) =
            if trace.columns.flows.is_empty() { by_sequence(trace) } else { by_flow(trace) };
        // A sequence number of several functions does not say which of them belongs to the forward operator.
        let shared = &Validation::of(trace).shared_numbers;
        if !shared.is_empty() {
            let own = |row: u32| trace.columns.args.uint(Arg::SeqNumber, row);
            let number = |row: u32| own(row).or_else(|| own(with_wrapper(trace, row)));
            let before = found.len();
            found.retain(|(_, row)| number(*row).is_none_or(|n| !shared.contains(&n)));
            unmatched += (before - found.len()) as u64;
        }
        let nodes = unique(found.clone());
        for pair in &mut found {
            pair.1 = with_wrapper(trace, pair.1);
        }
        Self { pairs: unique(found), nodes, unmatched, rule }
    }
}

/// The pairs of two different operators, one for each backward operator, sorted by it.
fn unique(mut pairs: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    pairs.retain(|p| p.0 != p.1);
    pairs.sort_unstable_by_key(|p| (p.1, p.0));
    pairs.dedup_by_key(|p| p.1);
    pairs
}

/// The wrapper around a backward node, which also accumulates gradients; else the node itself.
fn with_wrapper(trace: &RankTrace, row: u32) -> u32 {
    let parent = trace.stacks.parent(row);
    parent.filter(|&p| trace.name(p).starts_with(WRAPPER)).unwrap_or(row)
}

type BackwardPairs = (Vec<(u32, u32)>, u64, Option<&'static str>);

fn by_flow(trace: &RankTrace) -> BackwardPairs {
    let c = &trace.columns;
    let mut starts: Vec<(u64, Ns, u32)> =
        c.flows.iter().filter(|f| f.is_start).map(|f| (f.id, f.ts, f.lane)).collect();
    starts.sort_unstable();
    let ops = OpsByPlace::new(trace);
    let (mut pairs, mut unmatched) = (Vec::new(), 0);
    for end in c.flows.iter().filter(|f| !f.is_start) {
        // Of several starts with one id, the last before the end counts.
        let until = starts.partition_point(|s| (s.0, s.1) <= (end.id, end.ts));
        let start = until.checked_sub(1).and_then(|i| starts.get(i)).filter(|s| s.0 == end.id);
        let forward = start.and_then(|s| ops.at(s.2, s.1, PairEnd::Forward));
        match forward.zip(ops.at(end.lane, end.ts, PairEnd::Backward)) {
            Some(pair) => pairs.push(pair),
            None => unmatched += 1,
        }
    }
    (pairs, unmatched, Some("flow"))
}

/// Operators by thread and start.
struct OpsByPlace {
    places: Vec<OpsAt>,
}

/// The operators of a thread that start at the same time. Those with a sequence number take precedence; of
/// these the innermost is the forward operator of a flow, the outermost the backward one.
struct OpsAt {
    lane: u32,
    ts: Ns,
    forward: u32,
    backward: u32,
}

impl OpsByPlace {
    fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let rows = (0..trace.classes.len()).filter(|&r| trace.classes[r] == Class::HostOp);
        // Outer before inner.
        let mut ops: Vec<(u32, Ns, Reverse<Ns>, u32)> =
            rows.map(|r| (c.lane[r], c.ts[r], Reverse(c.dur[r]), r as u32)).collect();
        ops.sort_unstable();
        let is_numbered = |o: &&(u32, Ns, Reverse<Ns>, u32)| c.args.uint(Arg::SeqNumber, o.3).is_some();
        let place = |same: &[(u32, Ns, Reverse<Ns>, u32)]| {
            let (first, last) = (same.first()?, same.last()?);
            let among =
                |found: Option<&(u32, Ns, Reverse<Ns>, u32)>, other: u32| found.map_or(other, |o| o.3);
            let (forward, backward) = match same {
                [one] => (one.3, one.3),
                _ => (
                    among(same.iter().rfind(is_numbered), last.3),
                    among(same.iter().find(is_numbered), first.3),
                ),
            };
            Some(OpsAt { lane: first.0, ts: first.1, forward, backward })
        };
        Self { places: ops.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).filter_map(place).collect() }
    }

    /// The operator that starts there.
    fn at(&self, lane: u32, ts: Ns, side: PairEnd) -> Option<u32> {
        let i = self.places.binary_search_by_key(&(lane, ts), |p| (p.lane, p.ts)).ok()?;
        let place = self.places.get(i)?;
        Some(match side {
            PairEnd::Forward => place.forward,
            PairEnd::Backward => place.backward,
        })
    }
}

fn by_sequence(trace: &RankTrace) -> BackwardPairs {
    let c = &trace.columns;
    let mut threads = c.args.cursor(Arg::FwdThread);
    // Forward operators by (thread, number), with start and row; backward ones by the number of their
    // forward thread.
    let mut forward: HashMap<(u32, u64), (Ns, u32)> = HashMap::new();
    let mut lanes: HashMap<u64, Vec<u32>> = HashMap::new();
    let mut backward: Vec<(u64, i64, u32)> = Vec::new();
    let numbers = c.args.column(Arg::SeqNumber);
    for (row, number) in numbers.iter() {
        if trace.classes.get(row as usize) != Some(&Class::HostOp) {
            continue;
        }
        match threads.get(row).map_or(0, |t| t as i64) {
            0 => {
                let lane = c.lane[row as usize];
                let this = (c.ts[row as usize], row);
                let last = forward.entry((lane, number)).or_insert_with(|| {
                    lanes.entry(number).or_default().push(lane);
                    this
                });
                *last = (*last).max(this);
            }
            thread if thread > 0 => backward.push((number, thread, row)),
            _ => {}
        }
    }
    // A node and its wrapper have the same number: the outer one represents both.
    let is_inner = |&(number, thread, row): &(u64, i64, u32)| {
        let parent = trace.stacks.parent(row);
        parent.is_some_and(|p| {
            c.args.uint(Arg::SeqNumber, p) == Some(number) && c.args.int(Arg::FwdThread, p) == Some(thread)
        })
    };
    backward.retain(|b| !is_inner(b));
    let mut votes: BTreeMap<i64, BTreeMap<u32, u64>> = BTreeMap::new();
    for (number, thread, _) in &backward {
        for lane in lanes.get(number).into_iter().flatten() {
            *votes.entry(*thread).or_default().entry(*lane).or_default() += 1;
        }
    }
    let elected = |thread: &i64| {
        let lanes = votes.get(thread)?;
        lanes.iter().max_by_key(|(lane, n)| (**n, Reverse(place(trace, **lane)))).map(|(lane, _)| *lane)
    };
    let known: BTreeMap<i64, u32> = votes.keys().filter_map(|t| Some((*t, elected(t)?))).collect();
    let (mut pairs, mut unmatched) = (Vec::new(), 0);
    for (number, thread, row) in &backward {
        let start = known.get(thread).and_then(|lane| forward.get(&(*lane, *number)));
        match start.filter(|f| f.0 <= c.ts[*row as usize]) {
            Some(f) => pairs.push((f.1, *row)),
            None => unmatched += 1,
        }
    }
    let rule = (!backward.is_empty()).then_some("sequence");
    (pairs, unmatched, rule)
}

/// Process and thread of a lane, as text, because lane numbers depend on the order of the file.
fn place(trace: &RankTrace, lane: u32) -> Option<(&str, &str)> {
    trace.columns.lanes.get(lane as usize).map(|l| (trace.text(l.pid), trace.text(l.tid)))
}
