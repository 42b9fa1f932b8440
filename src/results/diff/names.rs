//! `diff_by_name`: compares names on both sides, with their contributions to the change.

use crate::diff::exact::ExactFraction;
use crate::diff::population::{ChosenRanks, Population};
use crate::diff::set::{CellKey, WorkSide};
use crate::diff::summary::{Metric, MetricPair, NoisyFigure, is_change, pair};
use crate::diff::{DiffNameRow, DiffNames};
use hashbrown::HashMap;
use hta_base::table::compare::Noise;
use hta_base::table::schema::Batch;
use hta_trace::kernel::short_name;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Selects what identifies a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiffKey {
    Name,
    ShortName,
    /// GPU rows are identified by category, operator or module, whichever the mapper recorded.
    Owner {
        short: bool,
    },
}

/// Identifies a row: side, class, name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NameKey {
    pub(crate) side: WorkSide,
    pub(crate) class: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// A row with its values on both sides.
#[derive(Debug, Clone)]
pub(crate) struct NameChange {
    pub(crate) label: NameKey,
    pub(crate) ns: MetricPair,
    /// The same without enclosed events.
    pub(crate) own: MetricPair,
    /// Base and test.
    pub(crate) count: [ExactFraction; 2],
}

impl NameChange {
    pub(crate) fn count_delta(&self) -> ExactFraction {
        self.count[1].minus(self.count[0])
    }

    /// The kind of change, by count.
    pub(crate) fn change(&self) -> &'static str {
        match (self.count[0].num, self.count[1].num, self.count_delta().num.cmp(&0)) {
            (0, 1.., _) => "added",
            (1.., 0, _) => "deleted",
            (_, _, Ordering::Greater) => "increased",
            (_, _, Ordering::Less) => "decreased",
            (_, _, Ordering::Equal) => "unchanged",
        }
    }

    /// The group of rows to which its self time belongs.
    pub(crate) fn tree(&self) -> DiffTree {
        match (self.label.side, &*self.label.class) {
            (WorkSide::Gpu, _) => DiffTree::Gpu,
            (_, "annotation") => DiffTree::Annotations,
            (_, "python") => DiffTree::Python,
            (_, "collective") => DiffTree::Collectives,
            _ => DiffTree::Operators,
        }
    }
}

/// Groups of rows whose self times add up to a total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DiffTree {
    Gpu,
    Operators,
    Annotations,
    Python,
    Collectives,
}

/// The rows of both sides, largest change first.
pub fn compare(p: &Population, by: DiffKey) -> Vec<NameChange> {
    let mut ids: HashMap<NameKey, usize> = HashMap::new();
    let mut labels: Vec<NameKey> = Vec::new();
    let two_vendors = p.has_two_vendors();
    let sides = [&p.base, &p.test].map(|side| sums(side, by, two_vendors, &mut ids, &mut labels));
    let one_sided = p.one_sided();
    let mut rows: Vec<NameChange> = labels
        .into_iter()
        .enumerate()
        .map(|(i, label)| {
            let [base, test] = [0, 1].map(|s| sides[s].get(i).cloned().unwrap_or_default());
            let mean = |side: usize, num: i128| [&p.base, &p.test][side].by_rank.mean(num);
            let figure = |side: usize, of: &TimeSums| {
                let steps = [&p.base, &p.test][side].samples.len();
                let mut samples = of.samples.clone();
                samples.resize(steps, 0.0);
                NoisyFigure { mean: mean(side, of.total), noise: Noise::of(&samples) }
            };
            let pair = |base, test| MetricPair { base: figure(0, base), test: figure(1, test) };
            NameChange {
                label,
                ns: pair(&base.ns, &test.ns),
                own: pair(&base.own, &test.own),
                count: [mean(0, base.count), mean(1, test.count)],
            }
        })
        // Leave out names that occur only outside steps, and what only one of two recorders sees.
        .filter(|n| n.count.iter().any(|c| c.num != 0))
        .filter(|n| n.label.side == WorkSide::Gpu || !one_sided.contains_key(&*n.label.class))
        .collect();
    // All changes have the same denominator, so numerators can be compared.
    rows.sort_by(|a, b| {
        let size = |n: &NameChange| n.ns.delta().num.unsigned_abs();
        size(b).cmp(&size(a)).then_with(|| a.label.cmp(&b.label))
    });
    rows
}

/// Weighted sums of one label on one side.
#[derive(Debug, Clone, Default)]
struct NameSums {
    count: i128,
    ns: TimeSums,
    own: TimeSums,
}

/// A weighted sum, and the mean over ranks of each step.
#[derive(Debug, Clone, Default)]
struct TimeSums {
    total: i128,
    samples: Vec<f64>,
}

impl TimeSums {
    /// Adds the time of a rank in a step: `place` is the number of the step and of its ranks.
    fn add(&mut self, weighted: i128, ns: i64, place: Option<&(usize, usize)>) {
        self.total += weighted;
        if let Some((at, ranks)) = place {
            if self.samples.len() <= *at {
                self.samples.resize(at + 1, 0.0);
            }
            self.samples[*at] += ns as f64 / *ranks as f64;
        }
    }
}

fn sums(
    side: &ChosenRanks,
    by: DiffKey,
    two_vendors: bool,
    ids: &mut HashMap<NameKey, usize>,
    labels: &mut Vec<NameKey>,
) -> Vec<NameSums> {
    let places = side.places();
    let mut out: Vec<NameSums> = Vec::new();
    for (i, of) in side.ranks.iter().enumerate() {
        let own_ids: Vec<usize> = of
            .rank
            .keys
            .iter()
            .map(|key| {
                let label = label(key, by, two_vendors);
                *ids.entry(label).or_insert_with_key(|l| {
                    labels.push(l.clone());
                    labels.len() - 1
                })
            })
            .collect();
        for cell in of.rank.cells.iter().filter(|c| of.steps.contains(&c.step)) {
            let Some(&id) = own_ids.get(cell.key as usize) else { continue };
            if out.len() <= id {
                out.resize(id + 1, NameSums::default());
            }
            let sum = &mut out[id];
            sum.count += side.by_rank.weigh(i, cell.count);
            let place = places.get(&cell.step);
            sum.ns.add(side.by_rank.weigh(i, cell.ns), cell.ns, place);
            sum.own.add(side.by_rank.weigh(i, cell.own), cell.own, place);
        }
    }
    out
}

/// The name of a method without the address of its object, which differs from run to run.
fn without_address(name: &str) -> &str {
    name.split_once(" at 0x").map_or(name, |(front, _)| front)
}

/// Prefixes of calls into the runtime and the driver; what follows is called alike by all makers of devices.
const RUNTIMES: [&str; 3] = ["cuda", "hip", "cu"];

fn label(key: &CellKey, by: DiffKey, two_vendors: bool) -> NameKey {
    let short = |k: &CellKey| Arc::from(short_name(&k.name));
    let name = match (by, &key.owner) {
        _ if two_vendors && &*key.class == "runtime_call" => {
            let call = RUNTIMES.iter().find_map(|prefix| key.name.strip_prefix(prefix));
            Arc::from(call.unwrap_or(&key.name))
        }
        _ if &*key.class == "python" => Arc::from(without_address(&key.name)),
        (DiffKey::Owner { .. }, Some(owner)) => owner.clone(),
        (DiffKey::ShortName | DiffKey::Owner { short: true }, _) => short(key),
        _ => key.name.clone(),
    };
    NameKey { side: key.side, class: key.class.clone(), name }
}

/// The change of all self time of a tree, and the time before.
pub(crate) type TreeChange = (ExactFraction, ExactFraction);

/// The trees that change by enough that a share of their change has a meaning: none if the step does not.
pub(crate) fn trees(p: &Population, rows: &[NameChange]) -> BTreeMap<DiffTree, TreeChange> {
    if !pair(p, Metric::StepTime).is_changed() {
        return BTreeMap::new();
    }
    let mut all: BTreeMap<DiffTree, TreeChange> = BTreeMap::new();
    for n in rows {
        let (delta, before) = (n.own.delta(), n.own.base.mean);
        let none = |of: ExactFraction| ExactFraction { num: 0, den: of.den };
        let sums = all.entry(n.tree()).or_insert((none(delta), none(before)));
        sums.0.num = sums.0.num.saturating_add(delta.num);
        sums.1.num = sums.1.num.saturating_add(before.num);
    }
    all.retain(|_, (delta, before)| is_change(*delta, *before));
    all
}

/// Percentage of a row in the change of its tree; `None` if the tree hardly changes.
pub(crate) fn share(n: &NameChange, trees: &BTreeMap<DiffTree, TreeChange>) -> Option<f64> {
    trees.get(&n.tree()).and_then(|(whole, _)| n.own.delta().percent_of(*whole))
}

pub(crate) fn table(p: &Population, rows: &[NameChange]) -> Batch {
    let step = pair(p, Metric::StepTime).base.mean;
    let trees = trees(p, rows);
    let mut table = DiffNames::default();
    for n in rows {
        let figure = n.ns.compared();
        table.push(DiffNameRow {
            side: n.label.side.name(),
            class: &n.label.class,
            name: &n.label.name,
            change: n.change(),
            trend: figure.trend().name(),
            base_count_per_step: n.count[0].value(),
            test_count_per_step: n.count[1].value(),
            delta_count_per_step: n.count_delta().value(),
            base_ns_per_step: n.ns.base.mean.value(),
            test_ns_per_step: n.ns.test.mean.value(),
            delta_ns_per_step: n.ns.delta().value(),
            delta_pct: figure.pct,
            base_self_ns_per_step: n.own.base.mean.value(),
            test_self_ns_per_step: n.own.test.mean.value(),
            delta_self_ns_per_step: n.own.delta().value(),
            share_of_change_pct: share(n, &trees),
            step_pct: n.ns.delta().percent_of(step),
            base_std_ns: n.ns.base.noise.std,
            test_std_ns: n.ns.test.noise.std,
            std_error_ns: figure.error,
            is_significant: figure.is_significant,
        });
    }
    table.finish()
}
