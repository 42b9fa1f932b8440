//! Replays by graph: those with the same recorded number, content and capture.

use crate::graph_ops::best_repeat::{Repeat, best_repeat};
use crate::graph_ops::tables::{GraphRow, Graphs};
use hashbrown::HashMap;
use hta_base::table::schema::Batch;
use hta_base::units::{Ns, percent};
use hta_facts::graphs::nodes::{GraphNodes, GraphReplay, Match, OpSource, graph_id};
use hta_trace::rank_trace::RankTrace;

/// What is equal for all replays of a row: recorded number, content, capture.
type ReplayedGraph = (Option<u64>, u32, Option<u32>);

/// The graphs of a rank.
pub(crate) struct GraphKinds {
    /// By replay.
    of: Vec<u32>,
    /// Replays of each graph.
    replays: Vec<Vec<u32>>,
    /// By content.
    repeats: Vec<Option<Repeat>>,
}

impl GraphKinds {
    pub(crate) fn new(trace: &RankTrace, nodes: &GraphNodes) -> Self {
        let mut known: HashMap<ReplayedGraph, u32> = HashMap::new();
        let (mut of, mut replays): (Vec<u32>, Vec<Vec<u32>>) = (Vec::new(), Vec::new());
        for (number, replay) in (0..).zip(&nodes.replays) {
            let key = (graph_id(trace, replay), replay.sequence, replay.found.capture().0);
            let next = replays.len() as u32;
            let graph = *known.entry(key).or_insert(next);
            match replays.get_mut(graph as usize) {
                Some(more) => more.push(number),
                None => replays.push(vec![number]),
            }
            of.push(graph);
        }
        Self { of, replays, repeats: nodes.sequences.iter().map(|s| best_repeat(s)).collect() }
    }

    /// Number of the graph of a replay.
    pub(crate) fn graph(&self, replay: u32) -> u32 {
        self.of.get(replay as usize).copied().unwrap_or(u32::MAX)
    }

    /// The repeat of a content.
    pub(crate) fn repeat(&self, sequence: u32) -> Option<Repeat> {
        self.repeats.get(sequence as usize).copied().flatten()
    }
}

pub(crate) fn table(trace: &RankTrace, nodes: &GraphNodes, kinds: &GraphKinds) -> Batch {
    let wholes = Wholes::new(trace, nodes);
    let mut table = Graphs::default();
    for (graph, numbers) in (0..).zip(&kinds.replays) {
        let replays: Vec<&GraphReplay> =
            numbers.iter().filter_map(|n| nodes.replays.get(*n as usize)).collect();
        let Some(first) = replays.first() else { continue };
        let ns = |i: &u32| trace.activities.get(*i as usize).map_or(0, |a| a.span.len());
        let all = || replays.iter().flat_map(|r| &r.nodes);
        let is_named = |i: &&u32| nodes.operator_of(**i).is_some();
        let (capture, source) = first.found.capture();
        let has_annotations = source == OpSource::None && all().any(|i| nodes.operator_of(*i).is_some());
        let source = if has_annotations { OpSource::Annotation } else { source };
        let count = first.nodes.len();
        let (shown, matched, reject) = match &first.found {
            Match::Exact(_) | Match::ByCount(_) => (capture, count, None),
            Match::Partial(_, partners) => (capture, partners.iter().flatten().count(), None),
            Match::None(why, closest) => (closest.map(|c| c.0), closest.map_or(0, |c| c.1), Some(why.name())),
        };
        let shown = shown.and_then(|i| nodes.graphs.get(i as usize));
        let captured = capture.and(shown).map_or(0, |g| g.calls.len());
        let repeat = kinds.repeat(first.sequence);
        let median = repeat.and_then(|r| {
            let blocks = |replay: &&GraphReplay| -> Vec<Ns> {
                let inside = replay.nodes.get(r.from..r.from + r.covered()).unwrap_or_default();
                inside.chunks(r.length).map(|block| block.iter().map(ns).sum()).collect()
            };
            let mut sums: Vec<Ns> = replays.iter().flat_map(blocks).collect();
            sums.sort_unstable();
            sums.get(sums.len() / 2).copied()
        });
        table.push(GraphRow {
            rank: trace.rank,
            device: first.nodes.first().and_then(|i| trace.activities.get(*i as usize)?.device()),
            graph,
            graph_id: graph_id(trace, first),
            replay_count: replays.len() as u64,
            activity_count: count as u64,
            missing_count: wholes.length(trace, nodes, first).max(captured).saturating_sub(count) as u64,
            sum_ns: all().map(ns).sum(),
            op_source: source.name(),
            capture_file: shown.map(|g| g.file.as_str()),
            capture: shown.and_then(|g| g.name).map(|n| trace.text(n)),
            padded_batch: shown.and_then(|g| g.padded_batch),
            captured_count: shown.map(|g| g.calls.len() as u64),
            matched_count: matched as u64,
            named_count: first.nodes.iter().filter(is_named).count() as u64,
            named_ns: all().filter(is_named).map(ns).sum(),
            reject,
            repeat_length: repeat.map(|r| r.length as u64),
            repeat_start: repeat.map(|r| r.from as u64),
            repeat_count: repeat.map(|r| r.count as u64),
            repeat_pct: repeat.and_then(|r| percent(r.covered() as Ns, count as Ns)),
            repeat_median_ns: median,
        });
    }
    table.finish()
}

/// How many activities a whole replay has: the most of any launch with the same recorded number; without
/// numbers, those of the longest content that begins with this one.
struct Wholes {
    by_id: HashMap<u64, usize>,
    by_sequence: HashMap<u32, usize>,
}

impl Wholes {
    fn new(trace: &RankTrace, nodes: &GraphNodes) -> Self {
        let mut by_id: HashMap<u64, usize> = HashMap::new();
        for replay in &nodes.replays {
            if let Some(id) = graph_id(trace, replay) {
                let most = by_id.entry(id).or_default();
                *most = replay.nodes.len().max(*most);
            }
        }
        let mut order: Vec<u32> = (0..nodes.sequences.len() as u32).collect();
        let content = |i: u32| nodes.sequences.get(i as usize).map_or(&[][..], Vec::as_slice);
        // In this order a sequence is followed by those that begin with it.
        order.sort_by(|a, b| content(*a).cmp(content(*b)));
        let mut by_sequence = HashMap::new();
        for (at, &i) in order.iter().enumerate() {
            let longer = order.iter().skip(at).take_while(|j| content(**j).starts_with(content(i)));
            by_sequence.insert(i, longer.map(|j| content(*j).len()).max().unwrap_or(0));
        }
        Self { by_id, by_sequence }
    }

    fn length(&self, trace: &RankTrace, nodes: &GraphNodes, replay: &GraphReplay) -> usize {
        let known = match graph_id(trace, replay) {
            Some(id) => self.by_id.get(&id),
            None => self.by_sequence.get(&replay.sequence),
        };
        let own = nodes.sequences.get(replay.sequence as usize).map_or(0, Vec::len);
        known.copied().unwrap_or(own)
    }
}
