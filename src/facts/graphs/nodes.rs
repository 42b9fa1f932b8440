//! Every activity of a replay with the recorded call that it is, and the operator around that call.
//!
//! Captured operators have no rows in the trace of the replay: they are objects of their own, whose texts are
//! added to those of the trace. One alignment serves all replays of the same content.

use super::capture_file::capture_file;
use super::choice::{Candidates, CaptureCandidate, Fit, Partners, Reject, one_of};
use super::symbols::{Symbol, Symbols};
use crate::iterations::Iterations;
use hashbrown::HashMap;
use hta_trace::activity::Activity;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::graph_capture::{CaptureFile, CapturedCall, CapturedOperator, NodeKind};
use hta_trace::graph_replay::graph_of;
use hta_trace::rank_trace::RankTrace;
use hta_trace::rules::copy_kind;
use hta_trace::stack::MOST_AROUND;
use hta_trace::strings::{Interner, StrId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How an activity got its operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpSource {
    /// The whole replay is equal to a capture.
    Exact,
    /// Most of it is in the order of a capture, and this activity is.
    Partial,
    /// Only kinds and counts agree.
    ByCount,
    /// No capture names it, but the program did when it made the graph.
    Annotation,
    /// It has no name.
    None,
}

impl OpSource {
    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            OpSource::Exact => "exact",
            OpSource::Partial => "partial",
            OpSource::ByCount => "by_count",
            OpSource::Annotation => "annotation",
            OpSource::None => "none",
        }
    }
}

/// The capture of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    Exact(u32),
    Partial(u32, Partners),
    ByCount(u32),
    /// With the closest capture and how many activities have a partner in it.
    None(Reject, Option<(u32, usize)>),
}

impl Match {
    /// Index of the capture, and how it was found.
    pub fn capture(&self) -> (Option<u32>, OpSource) {
        match self {
            Match::Exact(i) => (Some(*i), OpSource::Exact),
            Match::Partial(i, _) => (Some(*i), OpSource::Partial),
            Match::ByCount(i) => (Some(*i), OpSource::ByCount),
            Match::None(..) => (None, OpSource::None),
        }
    }
}

/// One launch of a graph.
pub struct GraphReplay {
    /// Row of the launch call.
    pub call: u32,
    /// Indices of its activities, in the order of the graph.
    pub nodes: Vec<u32>,
    /// Index into [`GraphNodes::sequences`].
    pub sequence: u32,
    pub found: Match,
}

/// A captured graph; `operator` of its calls is an index into [`GraphNodes::operators`].
pub struct GraphCalls {
    /// File of the capture.
    pub file: String,
    /// Whether the trace itself captured it.
    pub is_own: bool,
    pub name: Option<StrId>,
    pub padded_batch: Option<u64>,
    pub calls: Vec<CapturedCall>,
}

/// The call of an operator that owns an activity: the one place where that is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperatorCall {
    /// The operator around the launch call, by its row.
    Row(u32),
    /// A captured operator: index of the replay and of the operator.
    Captured(u32, u32),
}

/// Where an activity is in its replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayPlace {
    pub replay: u32,
    /// Place in the order of the graph.
    pub index: u32,
    pub source: OpSource,
    /// Index of the operator around the captured call.
    pub operator: Option<u32>,
}

/// The replays of a rank. Texts of captures are read with [`RankTrace::text`], as all others.
#[derive(Default)]
pub struct GraphNodes {
    pub replays: Vec<GraphReplay>,
    /// The distinct contents of replays.
    pub sequences: Vec<Vec<Symbol>>,
    pub graphs: Vec<GraphCalls>,
    /// Outer before inner; those of one capture together.
    pub operators: Vec<CapturedOperator>,
    /// Graphs and calls that the trace itself captured.
    pub own_captures: (usize, usize),
    /// Index of the operator that stands for the annotation of an activity in a graph.
    annotated: HashMap<u32, u32>,
    /// Replay and place of each activity; empty without replays.
    places: Vec<Option<(u32, u32)>>,
}

impl GraphNodes {
    /// The shared instance of a rank.
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    fn new(trace: &RankTrace) -> Self {
        if trace.graph_replays.is_empty() && trace.stream_captures.is_empty() {
            return Self::default();
        }
        let own = capture_file(trace, Some(trace.rank));
        let mut all = Self { own_captures: (own.graphs.len(), own.call_count()), ..Self::default() };
        let mut symbols = Symbols::default();
        let mut texts = AddedTexts { trace, added: Interner::default() };
        let mut candidates = Vec::new();
        let given = trace.graph_captures.of_rank(trace.rank).map(|file| (file, false));
        for file in given.chain([(&own, true)]) {
            all.add(file, &mut symbols, &mut texts, &mut candidates);
        }
        trace.add_texts(texts.added.finish());
        all.find(trace, &Candidates::new(candidates), &mut symbols);
        all.annotate(trace);
        all
    }

    /// Adds the graphs and operators of a file.
    fn add(
        &mut self,
        (file, is_own): (&CaptureFile, bool),
        symbols: &mut Symbols,
        texts: &mut AddedTexts,
        candidates: &mut Vec<CaptureCandidate>,
    ) {
        let mut known: HashMap<StrId, StrId> = HashMap::new();
        let mut text = |id: StrId| *known.entry(id).or_insert_with(|| texts.id(file.texts.get(id)));
        let first = self.operators.len() as u32;
        for o in &file.operators {
            self.operators.push(CapturedOperator {
                name: text(o.name),
                outer: o.outer.map(|i| first + i),
                inputs: o.inputs.map(|i| i.map(&mut text)),
                module: o.module.map(&mut text),
                layer: o.layer,
                stack: o.stack.map(&mut text),
                line: o.line.map(&mut text),
                counts: o.counts,
            });
        }
        for g in &file.graphs {
            let name = |id| file.texts.get(id);
            let symbol = |c: &CapturedCall| symbols.of(c.kind, c.name.map(name), name);
            candidates.push(CaptureCandidate {
                symbols: g.calls.iter().map(symbol).collect(),
                padded_batch: g.padded_batch,
            });
            let call = |c: &CapturedCall| CapturedCall { operator: c.operator.map(|i| first + i), ..*c };
            self.graphs.push(GraphCalls {
                file: file.file.clone(),
                is_own,
                name: g.name.map(&mut text),
                padded_batch: g.padded_batch,
                calls: g.calls.iter().map(call).collect(),
            });
        }
    }

    /// Finds the capture of each replay.
    fn find(&mut self, trace: &RankTrace, candidates: &Candidates, symbols: &mut Symbols) {
        let mut of_name: HashMap<(Class, StrId), Symbol> = HashMap::new();
        let mut symbol = |a: &Activity| {
            *of_name.entry((a.class, a.name)).or_insert_with(|| activity_symbol(trace, a, symbols))
        };
        let mut known: HashMap<Vec<Symbol>, u32> = HashMap::new();
        let mut fits: HashMap<(u32, bool), Fit> = HashMap::new();
        self.places = vec![None; trace.activities.len()];
        let mut replays: Vec<(u32, Vec<u32>, u32, Option<u32>)> = Vec::new();
        for (call, nodes) in trace.graph_replays.iter() {
            let of = || nodes.iter().filter_map(|i| trace.activities.get(*i as usize));
            let content: Vec<Symbol> = of().map(&mut symbol).collect();
            let next = self.sequences.len() as u32;
            let sequence = *known.entry_ref(content.as_slice()).or_insert_with(|| {
                self.sequences.push(content.clone());
                next
            });
            let replay = replays.len() as u32;
            for (i, place) in nodes.iter().zip(0..) {
                if let Some(of_activity) = self.places.get_mut(*i as usize) {
                    *of_activity = Some((replay, place));
                }
            }
            replays.push((call, nodes.to_vec(), sequence, of().next().and_then(Activity::step)));
        }
        // Replays of the same content in one iteration, or outside any.
        let mut counts: BTreeMap<(u32, Option<u32>), usize> = BTreeMap::new();
        replays.iter().for_each(|r| *counts.entry((r.2, r.3)).or_default() += 1);
        let mut before: BTreeMap<(u32, Option<u32>), usize> = BTreeMap::new();
        let batches = batches(trace);
        for (call, nodes, sequence, step) in replays {
            let seen = before.entry((sequence, step)).or_default();
            let place = (*seen, counts.get(&(sequence, step)).copied().unwrap_or(1));
            *seen += 1;
            let mut streams =
                nodes.iter().filter_map(|i| trace.activities.get(*i as usize)).map(Activity::stream);
            let first = streams.next();
            let is_one_stream = streams.all(|s| Some(s) == first);
            let content = self.sequences.get(sequence as usize).map_or(&[][..], Vec::as_slice);
            let fit = fits
                .entry((sequence, is_one_stream))
                .or_insert_with(|| candidates.fit(content, is_one_stream));
            let batch = step.and_then(|s| batches.get(&s).copied());
            let found = match fit {
                Fit::Exact(several) => one_of(several, candidates, batch, place).map_or(
                    Match::None(Reject::Ambiguous, several.first().map(|i| (*i, nodes.len()))),
                    Match::Exact,
                ),
                Fit::Partial(several) => only(several, candidates, batch),
                Fit::ByCount(i) => Match::ByCount(*i),
                Fit::Rejected(why, closest) => Match::None(*why, *closest),
            };
            self.replays.push(GraphReplay { call, nodes, sequence, found });
        }
    }

    /// Adds what the program called the parts of its graphs, as operators.
    fn annotate(&mut self, trace: &RankTrace) {
        let mut known: HashMap<StrId, u32> = HashMap::new();
        for &i in self.replays.iter().flat_map(|replay| &replay.nodes) {
            let row = trace.activities.get(i as usize).map(|a| a.row);
            let Some(name) = row.and_then(|row| trace.columns.args.text(Arg::GraphAnnotation, row)) else {
                continue;
            };
            let operator = *known.entry(name).or_insert_with(|| {
                self.operators.push(CapturedOperator { name, ..CapturedOperator::default() });
                self.operators.len() as u32 - 1
            });
            self.annotated.insert(i, operator);
        }
    }

    /// What the program called parts of its graphs; some several times.
    pub fn annotations(&self) -> impl Iterator<Item = StrId> {
        self.annotated.values().filter_map(|operator| Some(self.operator(*operator)?.name))
    }

    /// Where an activity is in its replay; `None` if it is not in a graph.
    pub fn node(&self, activity: u32) -> Option<ReplayPlace> {
        let (replay, index) = (*self.places.get(activity as usize)?)?;
        let found = &self.replays.get(replay as usize)?.found;
        let (graph, source) = found.capture();
        let call = match found {
            Match::Partial(_, partners) => partners.get(index as usize).copied().flatten(),
            _ => Some(index),
        };
        let captured = graph.and_then(|g| self.graphs.get(g as usize)).zip(call);
        let captured = captured.and_then(|(graph, call)| graph.calls.get(call as usize));
        let (operator, source) =
            match (captured.and_then(|c| c.operator), self.annotated.get(&activity).copied()) {
                (Some(operator), _) => (Some(operator), source),
                (None, Some(annotation)) => (Some(annotation), OpSource::Annotation),
                (None, None) => (None, OpSource::None),
            };
        Some(ReplayPlace { replay, index, source, operator })
    }

    /// The call that owns an activity: of a captured operator in a graph that has a name, else of the
    /// operator around the launch.
    pub fn owner(&self, trace: &RankTrace, activity: u32) -> Option<OperatorCall> {
        match self.node(activity).and_then(|n| Some((n.replay, n.operator?))) {
            Some((replay, operator)) => Some(OperatorCall::Captured(replay, operator)),
            None => trace.activities.get(activity as usize)?.op().map(OperatorCall::Row),
        }
    }

    /// The name of the operator of a call.
    pub fn name(&self, trace: &RankTrace, call: OperatorCall) -> StrId {
        match call {
            OperatorCall::Row(row) => trace.columns.name(row as usize),
            OperatorCall::Captured(_, operator) => self.operator(operator).map_or(StrId::EMPTY, |o| o.name),
        }
    }

    /// Shapes, types, strides and scalars of the inputs of a call, where recorded.
    pub fn inputs(&self, trace: &RankTrace, call: OperatorCall) -> [Option<StrId>; 4] {
        match call {
            OperatorCall::Row(row) => {
                [Arg::InputDims, Arg::InputType, Arg::InputStrides, Arg::ConcreteInputs]
                    .map(|arg| trace.columns.args.text(arg, row))
            }
            OperatorCall::Captured(_, operator) => self.operator(operator).map_or([None; 4], |o| o.inputs),
        }
    }

    /// Index of the captured operator of an activity in a graph.
    pub fn operator_of(&self, activity: u32) -> Option<u32> {
        self.node(activity)?.operator
    }

    /// The captured operator at an index.
    pub fn operator(&self, index: u32) -> Option<&CapturedOperator> {
        self.operators.get(index as usize)
    }

    /// The captured operator of a call, if it is one.
    pub fn captured(&self, call: Option<OperatorCall>) -> Option<&CapturedOperator> {
        match call {
            Some(OperatorCall::Captured(_, operator)) => self.operator(operator),
            _ => None,
        }
    }

    /// The captured operator of an activity, and the operators around it.
    pub fn outward(&self, index: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(index), move |i| self.operator(*i)?.outer).take(MOST_AROUND)
    }
}

/// The only one of several partial fits, after the batch was considered.
fn only(several: &[(u32, Partners)], candidates: &Candidates, batch: Option<u64>) -> Match {
    let fitting: Vec<u32> = several.iter().map(|(i, _)| *i).collect();
    // More places than captures: the place must not decide.
    let undecided = (0, fitting.len() * 2 + 1);
    let one = one_of(&fitting, candidates, batch, undecided);
    match one.and_then(|one| several.iter().find(|(i, _)| *i == one)) {
        Some((i, partners)) => Match::Partial(*i, Arc::clone(partners)),
        None => {
            let closest = several.first().map(|(i, partners)| (*i, partners.iter().flatten().count()));
            Match::None(Reject::Ambiguous, closest)
        }
    }
}

/// By step, the batch of an iteration: as padded if it says so, else its requests.
fn batches(trace: &RankTrace) -> BTreeMap<u32, u64> {
    let iterations = Iterations::of(trace);
    iterations.all.iter().filter_map(|i| Some((i.step, i.about.padded_batch.or(i.about.requests)?))).collect()
}

fn activity_symbol(trace: &RankTrace, a: &Activity, symbols: &mut Symbols) -> Symbol {
    let name = trace.text(a.name);
    let kind = match a.class {
        Class::Memset => NodeKind::Set,
        Class::Memcpy => NodeKind::Copy(Some(copy_kind(a.class, name)).filter(|to| *to != "unknown")),
        _ => NodeKind::Kernel,
    };
    symbols.of(kind, Some(name), |to| to)
}

/// Texts that the trace lacks.
struct AddedTexts<'a> {
    trace: &'a RankTrace,
    added: Interner,
}

impl AddedTexts<'_> {
    fn id(&mut self, text: &str) -> StrId {
        let recorded = &self.trace.columns.strings;
        recorded
            .lookup(text.as_bytes())
            .unwrap_or_else(|| StrId(recorded.len() as u32 + self.added.intern(text).0))
    }
}

/// The id of the graph of a replay, where the recorder writes it.
pub fn graph_id(trace: &RankTrace, replay: &GraphReplay) -> Option<u64> {
    let first = replay.nodes.first().and_then(|i| trace.activities.get(*i as usize))?;
    graph_of(&trace.columns, first.row)
}
