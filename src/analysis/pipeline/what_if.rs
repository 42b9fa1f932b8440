//! What a pipeline would take with other stages, micro-batches or chunks: replays of generated orders with
//! the median length of its chunks by stage and kind.

use crate::pipeline::measured::PipelineRun;
use crate::pipeline::order::KnownSchedule;
use crate::pipeline::ordered::{ChunkKey, OrderedChunk, PipelineShape};
use crate::pipeline::replay::OrderGraph;
use hta_base::order_statistics::{median, median_of_sorted};
use hta_base::units::{Ns, percent};
use hta_facts::chunks::ChunkKind;
use std::collections::BTreeMap;

/// A change of a pipeline with its replay.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PipelineChange {
    pub(crate) change: &'static str,
    pub(crate) value: String,
    pub(crate) replay: Ns,
    /// `None` if the work of a step is another.
    pub(crate) gain: Option<Ns>,
    pub(crate) step: Option<Ns>,
    pub(crate) per_micro_batch: Ns,
    pub(crate) needs: &'static str,
    pub(crate) replay_error_pct: Option<f64>,
}

/// Lengths by stage and kind, ns.
type StageLengths = BTreeMap<(u32, ChunkKind), Ns>;

/// A pipeline to change.
struct ReplayedPipeline {
    schedule: KnownSchedule,
    shape: PipelineShape,
    lengths: StageLengths,
    /// Median of the measured times, ns.
    time: Ns,
    base: Ns,
    /// Median of what messages add to a step, where it is known, ns.
    transfer: Option<Ns>,
}

/// Names of changes, for those who look for one.
pub(crate) const EQUAL_STAGES: &str = "equal stages";
pub(crate) const MOVE_WORK: &str = "move work of the longest stage";
pub(crate) const MORE_CHUNKS: &str = "stages per rank";

/// The changes that were replayed; none without a known schedule and reasons.
pub(crate) fn changes(run: &PipelineRun) -> Vec<PipelineChange> {
    let Some(of) = ReplayedPipeline::of(run) else { return Vec::new() };
    let shape = of.shape;
    let mut out = Vec::new();
    let stages = "stages of other layers; the same work in all";
    out.extend(of.with_lengths(EQUAL_STAGES, "mean of all".to_string(), of.equal(), stages));
    if let Some((longest, median)) = of.longest_and_usual() {
        let value = format!("a tenth of a usual stage, from stage {longest} to the shortest");
        let moved = of.moved(longest, median);
        out.extend(of.with_lengths(
            MOVE_WORK,
            value,
            moved,
            "layers that can be divided so; memory of the other stage",
        ));
        let lengths = of.lengths.iter().map(|((s, kind), ns)| {
            let usual =
                if *s == longest { of.lengths.get(&(median, *kind)).copied().unwrap_or(*ns) } else { *ns };
            ((*s, *kind), usual)
        });
        let value = format!("stage {longest} as long as stage {median}");
        out.extend(of.with_lengths(
            "shorten the longest stage",
            value,
            lengths.collect(),
            "less work in this stage",
        ));
    }
    for factor in [2, 4] {
        let more = PipelineShape { m: shape.m * factor, ..shape };
        let replay = of.replay(of.schedule, more, &of.lengths);
        out.extend(
            replay.map(|ns| of.change("micro-batches", more.m.to_string(), ns, more, "a larger batch")),
        );
    }
    for &factor in of.dividing() {
        let more = PipelineShape { v: shape.v * factor, ..shape };
        let replay = of.replay(KnownSchedule::Interleaved, more, &of.divided(factor));
        let needs = "stages that can be divided; more messages; memory of more micro-batches";
        let value = format!("{}, interleaved", more.v);
        out.extend(replay.map(|ns| of.change(MORE_CHUNKS, value, ns, more, needs)));
    }
    out.extend(of.transfer.map(|ns| PipelineChange {
        gain: Some(ns),
        step: Some(of.time - ns),
        ..of.change(
            "transfers",
            "none".to_string(),
            of.base,
            shape,
            "faster links, or messages behind compute",
        )
    }));
    out
}

impl ReplayedPipeline {
    fn of(run: &PipelineRun) -> Option<Self> {
        let first = run.steps.first()?;
        let (schedule, shape) = (first.placed.schedule?, first.placed.shape);
        let is_alike = |s: &&crate::pipeline::measured::PipelineStep| {
            s.reasons.is_ok() && s.placed.schedule == Some(schedule) && s.placed.shape == shape
        };
        let mut lengths: BTreeMap<(u32, ChunkKind), Vec<Ns>> = BTreeMap::new();
        let (mut times, mut transfers) = (Vec::new(), Vec::new());
        for s in run.steps.iter().filter(is_alike) {
            times.push(s.whole.len());
            transfers.extend(s.reasons.as_ref().ok().and_then(|r| r.transfer));
            for c in s.placed.ranks.iter().flat_map(|r| &r.chunks) {
                if c.chunk.with.is_some() {
                    return None;
                }
                lengths.entry((c.chunk.first.stage, c.chunk.first.kind)).or_default().push(c.span.len());
            }
        }
        let lengths: StageLengths =
            lengths.into_iter().filter_map(|(key, mut ns)| Some((key, median(&mut ns)?))).collect();
        let transfer = median(&mut transfers);
        let mut out = Self { schedule, shape, lengths, time: median(&mut times)?, base: 0, transfer };
        out.base = out.replay(schedule, shape, &out.lengths)?;
        Some(out)
    }

    fn replay(&self, schedule: KnownSchedule, shape: PipelineShape, lengths: &StageLengths) -> Option<Ns> {
        let orders: Vec<Vec<OrderedChunk>> =
            (0..shape.p).map(|s| schedule.order(shape, s)).collect::<Option<_>>()?;
        let graph = OrderGraph::of(&orders)?;
        let length = |key: ChunkKey| lengths.get(&(key.stage, key.kind)).copied().unwrap_or(0);
        let of_chunk =
            |(r, i): (usize, usize)| orders.get(r).and_then(|o| o.get(i)).map_or(0, |c| length(c.first));
        Some(graph.time(of_chunk, |_, _| 0))
    }

    fn change(
        &self,
        change: &'static str,
        value: String,
        replay: Ns,
        shape: PipelineShape,
        needs: &'static str,
    ) -> PipelineChange {
        let gain = (shape.m == self.shape.m).then_some(self.base - replay);
        PipelineChange {
            change,
            value,
            replay,
            gain,
            step: gain.map(|gain| self.time - gain),
            per_micro_batch: replay / Ns::from(shape.m.max(1)),
            needs,
            replay_error_pct: percent(self.base - self.time, self.time),
        }
    }

    fn with_lengths(
        &self,
        change: &'static str,
        value: String,
        lengths: StageLengths,
        needs: &'static str,
    ) -> Option<PipelineChange> {
        let replay = self.replay(self.schedule, self.shape, &lengths)?;
        Some(self.change(change, value, replay, self.shape, needs))
    }

    /// All stages as long as their mean, by kind.
    fn equal(&self) -> StageLengths {
        let stages = Ns::from(self.shape.p * self.shape.v).max(1);
        let mut sums: BTreeMap<ChunkKind, Ns> = BTreeMap::new();
        self.lengths.iter().for_each(|((_, kind), ns)| *sums.entry(*kind).or_default() += ns);
        let mean = |kind: &ChunkKind| sums.get(kind).copied().unwrap_or(0) / stages;
        self.lengths.keys().map(|key| (*key, mean(&key.1))).collect()
    }

    /// The stages by their time of all kinds.
    fn by_length(&self) -> Vec<(Ns, u32)> {
        let mut of: BTreeMap<u32, Ns> = BTreeMap::new();
        self.lengths.iter().for_each(|((stage, _), ns)| *of.entry(*stage).or_default() += ns);
        let mut out: Vec<(Ns, u32)> = of.into_iter().map(|(stage, ns)| (ns, stage)).collect();
        out.sort_unstable();
        out
    }

    /// The longest stage, and the one in the middle.
    fn longest_and_usual(&self) -> Option<(u32, u32)> {
        let by_length = self.by_length();
        let (longest, usual) = (by_length.last()?, median_of_sorted(&by_length)?);
        (longest.0 > usual.0).then_some((longest.1, usual.1))
    }

    /// A tenth of the usual stage moved from a stage to the shortest one.
    fn moved(&self, from: u32, usual: u32) -> StageLengths {
        let to = self.by_length().first().map(|(_, stage)| *stage);
        let tenth = |kind: ChunkKind| self.lengths.get(&(usual, kind)).map_or(0, |ns| ns / 10);
        let changed = |((stage, kind), ns): (&(u32, ChunkKind), &Ns)| {
            let change = match *stage {
                s if s == from => -tenth(*kind),
                s if Some(s) == to => tenth(*kind),
                _ => 0,
            };
            ((*stage, *kind), ns + change)
        };
        self.lengths.iter().map(changed).collect()
    }

    /// Into how many parts each stage may be divided for an interleaved schedule: none if backward is divided
    /// into two chunks, which this schedule does not know.
    fn dividing(&self) -> &'static [u32] {
        use KnownSchedule::{BreadthFirst, GPipe, Interleaved, OneForwardOneBackward};
        match self.schedule {
            GPipe | OneForwardOneBackward | BreadthFirst | Interleaved
                if self.shape.m.is_multiple_of(self.shape.p) =>
            {
                &[2, 4]
            }
            _ => &[],
        }
    }

    /// Each stage in equal parts, on the same rank.
    fn divided(&self, factor: u32) -> StageLengths {
        let all = self.shape.p * self.shape.v;
        let n = Ns::from(factor.max(1));
        let parts = |((stage, kind), ns): (&(u32, ChunkKind), &Ns)| {
            let (stage, kind, ns) = (*stage, *kind, *ns);
            let part = move |i: u32| (ns * Ns::from(i + 1)) / n - (ns * Ns::from(i)) / n;
            (0..factor).map(move |i| ((stage + i * all, kind), part(i)))
        };
        self.lengths.iter().flat_map(parts).collect()
    }
}
