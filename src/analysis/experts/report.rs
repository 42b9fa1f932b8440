//! The layers of experts as a printed table.

use crate::api::{Align, Options, View};
use crate::collectives::GroupSelection;
use crate::experts::correlation::TokenCorrelation;
use crate::experts::imbalance::ExpertImbalance;
use crate::experts::tables::length_alone;
use crate::facts::direction::Direction;
use crate::job::Job;
use crate::job::experts::{JobLayer, JobLayers, LayerBalance, combine_waits};
use crate::sums::more;
use hta_base::units::{Ns, fmt_ns, fmt_pct};
use hta_base::wording::ranks::ranks_in_column;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A layer over all steps.
#[derive(Default)]
struct LayerSums {
    label: String,
    passes: i64,
    max: Ns,
    mean: Ns,
    excess: Ns,
    waits: Ns,
    /// Largest tokens over the mean, weighted by excess, and share of tokens; with the weights.
    ratio: f64,
    share: f64,
    weight: f64,
    weight_of_share: f64,
    hot: BTreeSet<u32>,
    is_unknown: bool,
}

impl LayerSums {
    fn add(&mut self, job: &Job, l: &JobLayer, b: &LayerBalance) {
        self.passes += 1;
        self.max += b.max;
        self.mean += b.mean;
        self.excess += b.excess();
        let weight = b.excess().max(1) as f64;
        if let Some(ratio) = b.load_ratio {
            self.ratio += ratio * weight;
            self.weight += weight;
        }
        if let Some(share) = b.token_share {
            self.share += share * weight;
            self.weight_of_share += weight;
        }
        self.is_unknown |= b.load_ratio.is_none();
        self.hot.extend(job.parts.get(b.hot as usize).map(|p| p.rank));
        self.waits += combine_waits(job, l);
    }

    fn cells(&self) -> Vec<String> {
        let n = self.passes.max(1);
        let hot: Vec<u32> = self.hot.iter().copied().collect();
        let weighted = |sum: f64, weight: f64| (weight > 0.0).then(|| sum / weight);
        let ratio = weighted(self.ratio, self.weight).map_or("-".to_string(), |r| format!("{r:.2}"));
        vec![
            self.label.clone(),
            ranks_in_column(&hot),
            fmt_ns(self.max / n),
            fmt_ns(self.mean / n),
            fmt_ns(self.excess / n),
            ratio,
            fmt_pct(weighted(self.share, self.weight_of_share).map(|s| s * 100.0)),
            fmt_ns(self.waits / n),
        ]
    }
}

pub(super) fn views(job: &Job, layers: &JobLayers, shown: &GroupSelection, options: &Options) -> Vec<View> {
    let groups: BTreeSet<u32> = layers.layers.iter().map(|l| l.group).collect();
    let are_several = groups.len() > 1;
    let mut sums: BTreeMap<(u32, Direction, u32), LayerSums> = BTreeMap::new();
    for l in layers.layers.iter().filter(|l| shown.has(l.group)) {
        if let Some(balance) = &l.balance {
            let of = sums.entry((l.group, l.direction, l.ordinal)).or_default();
            of.label = label(&l.name, l.ordinal, l.direction);
            if are_several {
                of.label.push_str(&format!(" of {}", shown.name(l.group)));
            }
            of.add(job, l, balance);
        }
    }
    if sums.is_empty() {
        return vec![alone(job, notes(job, layers, false), options)];
    }
    let has_unknown = sums.values().any(|s| s.is_unknown);
    let mut sums: Vec<LayerSums> = sums.into_values().collect();
    let hidden = sums.len().saturating_sub(options.top);
    if hidden > 0 {
        sums.sort_by_key(|s| Reverse(s.excess));
        sums.truncate(options.top);
    }
    let columns = vec![
        ("layer", Align::Left),
        ("hot rank", Align::Left),
        ("largest", Align::Right),
        ("mean", Align::Right),
        ("excess", Align::Right),
        ("tokens, max/mean", Align::Right),
        ("by tokens", Align::Right),
        ("others wait", Align::Right),
    ];
    let mut view = View {
        title: "Expert time by layer, mean of its passes".to_string(),
        columns,
        rows: sums.iter().map(LayerSums::cells).collect(),
        notes: more(hidden, "layers").into_iter().collect(),
    };
    view.notes.extend(notes(job, layers, has_unknown));
    vec![view]
}

/// The layer as it is called, else by its position; with the part of the step unless it is the forward.
fn label(name: &str, ordinal: u32, direction: Direction) -> String {
    let name = if name.is_empty() { format!("layer {ordinal}") } else { name.to_string() };
    if direction == Direction::Forward { name } else { format!("{name}, {}", direction.name()) }
}

/// Label and number of passes; expert time, and times of both exchanges, unless a pass is fused.
type AloneSums = (String, Ns, [Option<Ns>; 3]);

/// Layers whose ranks cannot be compared: what each took on the recorded ranks.
fn alone(job: &Job, notes: Vec<String>, options: &Options) -> View {
    let mut sums: BTreeMap<(Direction, u32), AloneSums> = BTreeMap::new();
    for p in &job.parts {
        for l in p.layers.iter() {
            let length = |call: u32| p.calls.calls.get(call as usize).and_then(length_alone);
            let (_, passes, times) = sums
                .entry((l.direction, l.ordinal))
                .or_insert_with(|| (label(&l.name, l.ordinal, l.direction), 0, [Some(0); 3]));
            *passes += 1;
            let own = [l.expert, length(l.dispatch), length(l.combine)];
            times.iter_mut().zip(own).for_each(|(sum, ns)| *sum = sum.zip(ns).map(|(a, b)| a + b));
        }
    }
    let hidden = sums.len().saturating_sub(options.top);
    let row = |(label, passes, times): AloneSums| {
        let mean = times.into_iter().map(|ns| ns.map_or("-".to_string(), |ns| fmt_ns(ns / passes)));
        std::iter::once(label).chain(mean).collect()
    };
    View {
        title: "Layers of experts, mean of their passes".to_string(),
        columns: vec![
            ("layer", Align::Left),
            ("experts", Align::Right),
            ("dispatch", Align::Right),
            ("combine", Align::Right),
        ],
        rows: sums.into_values().take(options.top).map(row).collect(),
        notes: more(hidden, "layers").into_iter().chain(notes).collect(),
    }
}

fn notes(job: &Job, layers: &JobLayers, has_unknown: bool) -> Vec<String> {
    let mut out = Vec::new();
    let mut passes = job.parts.iter().flat_map(|p| p.layers.iter()).peekable();
    if passes.peek().is_none() {
        out.push(
            "no layers of experts found: no dispatch and combine of tokens with compute between them is \
             recorded"
                .to_string(),
        );
    } else if passes.any(|l| l.expert.is_none()) {
        out.push(
            "experts compute in fused kernels, together with the exchange of their tokens: their times, and \
             which rank is hot, cannot be told"
                .to_string(),
        );
    } else if layers.layers.iter().all(|l| l.balance.is_none()) {
        out.push(
            "layers of experts are recorded, but not those of all ranks of a group: who waits for whom is \
             not known"
                .to_string(),
        );
    }
    if has_unknown {
        out.push(
            "sizes of some exchanges are not recorded, so hot experts cannot be told from slow devices here \
             (`hta stragglers` compares all else that a rank computes): record shapes, or log the tokens of \
             each expert"
                .to_string(),
        );
    }
    if layers.layers.iter().any(|l| l.agrees == Some(false)) {
        out.push("some ranks received other sizes than were sent to them: the match is doubtful".to_string());
    }
    let excess: Ns = layers.layers.iter().filter_map(|l| l.balance).map(|b| b.excess()).sum();
    let steps: BTreeSet<_> = layers.layers.iter().map(|l| l.step).collect();
    if excess > 0 {
        out.push(format!(
            "excess of all layers together: {} a step, an upper bound of what equal expert times save",
            fmt_ns(excess / steps.len().max(1) as Ns)
        ));
    }
    if let Some(c) = TokenCorrelation::of(layers) {
        let r = c.r.map_or("undefined, too few or too equal ones".to_string(), |r| format!("r = {r:.2}"));
        out.push(format!(
            "longest expert time against the largest number of tokens/mean, over {} passes: {r}",
            c.passes
        ));
    }
    if let Some(found) = ExpertImbalance::of(job).as_ref() {
        out.push(format!("{}. {}.", found.what(&job.words), found.why()));
    }
    out
}
