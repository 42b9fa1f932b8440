//! `diff_by_name`: compares names on both sides, with their contributions to the change.

use crate::diff::exact::{ExactFraction, Noise};
use crate::diff::population::{ChosenRanks, Population};
use crate::diff::set::{CellKey, WorkSide};
use crate::diff::summary::{Metric, MetricPair, NoisyFigure, pair};
use crate::diff::{DiffNameRow, DiffNames};
use hashbrown::HashMap;
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
    /// Values of base and test, here and in the fields below.
    pub(crate) count: [ExactFraction; 2],
    pub(crate) own: [ExactFraction; 2],
}

impl NameChange {
    pub(crate) fn count_delta(&self) -> ExactFraction {
        self.count[1].minus(self.count[0])
    }

    pub(crate) fn own_delta(&self) -> ExactFraction {
        self.own[1].minus(self.own[0])
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

    /// The trend, by time.
    pub(crate) fn trend(&self) -> &'static str {
        match self.ns.delta().num.cmp(&0) {
            Ordering::Greater => "slower",
            Ordering::Less => "faster",
            Ordering::Equal => "same",
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
    let sides = [&p.base, &p.test].map(|side| sums(side, by, &mut ids, &mut labels));
    let one_sided = p.one_sided();
    let mut rows: Vec<NameChange> = labels
        .into_iter()
        .enumerate()
        .map(|(i, label)| {
            let [base, test] = [0, 1].map(|s| sides[s].get(i).cloned().unwrap_or_default());
            let mean = |side: usize, num: i128| [&p.base, &p.test][side].by_rank.mean(num);
            let figure = |side: usize, sums: &NameSums| {
                let steps = [&p.base, &p.test][side].samples.len();
                let mut samples = sums.samples.clone();
                samples.resize(steps, 0.0);
                NoisyFigure { mean: mean(side, sums.ns), noise: Noise::of(&samples) }
            };
            NameChange {
                label,
                ns: MetricPair { base: figure(0, &base), test: figure(1, &test) },
                count: [mean(0, base.count), mean(1, test.count)],
                own: [mean(0, base.own), mean(1, test.own)],
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
    ns: i128,
    own: i128,
    samples: Vec<f64>,
}

fn sums(
    side: &ChosenRanks,
    by: DiffKey,
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
                let label = label(key, by);
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
            sum.ns += side.by_rank.weigh(i, cell.ns);
            sum.own += side.by_rank.weigh(i, cell.own);
            if let Some((place, ranks)) = places.get(&cell.step) {
                sum.samples.resize(places.len(), 0.0);
                sum.samples[*place] += cell.ns as f64 / *ranks as f64;
            }
        }
    }
    out
}

fn label(key: &CellKey, by: DiffKey) -> NameKey {
    let short = |k: &CellKey| Arc::from(short_name(&k.name));
    let name = match (by, &key.owner) {
        (DiffKey::Owner { .. }, Some(owner)) => owner.clone(),
        (DiffKey::ShortName | DiffKey::Owner { short: true }, _) => short(key),
        _ => key.name.clone(),
    };
    NameKey { side: key.side, class: key.class.clone(), name }
}

/// The total change of self time, by tree.
pub(crate) fn trees(rows: &[NameChange]) -> BTreeMap<DiffTree, ExactFraction> {
    let mut all: BTreeMap<DiffTree, ExactFraction> = BTreeMap::new();
    for n in rows {
        let delta = n.own_delta();
        let sum = all.entry(n.tree()).or_insert(ExactFraction { num: 0, den: delta.den });
        sum.num = sum.num.saturating_add(delta.num);
    }
    all
}

/// Percentage of a row in the change of its tree.
pub(crate) fn share(n: &NameChange, trees: &BTreeMap<DiffTree, ExactFraction>) -> Option<f64> {
    trees.get(&n.tree()).and_then(|whole| n.own_delta().percent_of(*whole))
}

pub(crate) fn table(p: &Population, rows: &[NameChange]) -> Batch {
    let step = pair(p, Metric::StepTime).base.mean;
    let trees = trees(rows);
    let mut table = DiffNames::default();
    for n in rows {
        table.push(DiffNameRow {
            side: n.label.side.name(),
            class: &n.label.class,
            name: &n.label.name,
            change: n.change(),
            trend: n.trend(),
            base_count_per_step: n.count[0].value(),
            test_count_per_step: n.count[1].value(),
            delta_count_per_step: n.count_delta().value(),
            base_ns_per_step: n.ns.base.mean.value(),
            test_ns_per_step: n.ns.test.mean.value(),
            delta_ns_per_step: n.ns.delta().value(),
            delta_pct: n.ns.delta_pct(),
            base_self_ns_per_step: n.own[0].value(),
            test_self_ns_per_step: n.own[1].value(),
            delta_self_ns_per_step: n.own_delta().value(),
            share_of_change_pct: share(n, &trees),
            step_pct: n.ns.delta().percent_of(step),
            base_std_ns: n.ns.base.noise.std,
            test_std_ns: n.ns.test.noise.std,
            std_error_ns: n.ns.error(),
            is_significant: n.ns.is_significant(),
        });
    }
    table.finish()
}
