//! The account of time and the efficiency of two runs.

use crate::diff::exact::Noise;
use crate::output::html::against::figure::{Better, FigureName, HEADINGS, RunFigure, Unit, push};
use crate::output::html::axis::PageStep;
use crate::output::html::grid::Grid;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::diagnosis::TimeAccount;
use hta_analysis::efficiency::Efficiencies;
use hta_analysis::verdict::TIME_PARTS;
use hta_base::table::schema::Text;
use std::collections::{BTreeMap, BTreeSet};

columns! {
    Owned of TimeAccount {
        rank, device, step: Option<u32>, step_label, part: Text, cause: Option<Text>, time_ns: i64,
    }
}

columns! {
    Factors of Efficiencies {
        scope: Text, parallel_efficiency: Option<f64>, load_balance: Option<f64>,
        communication_efficiency: Option<f64>, orchestration_efficiency: Option<f64>, serialization_efficiency: Option<f64>,
        replayed_orchestration_efficiency: Option<f64>, transfer_efficiency: Option<f64>,
    }
}

/// A run without a number or an index of a step has one window for each device.
type PageStepKey = Option<PageStep>;

/// Sums of one run by part and owner.
#[derive(Default)]
struct PartSums {
    sums: BTreeMap<(String, Option<String>), BTreeMap<PageStepKey, i64>>,
    devices: BTreeMap<PageStepKey, BTreeSet<(u32, Option<i64>)>>,
}

impl PartSums {
    fn read(results: &Results) -> Result<Self, ResultsError> {
        let mut all = Self::default();
        results.read::<Owned>(|r| {
            let step = PageStep::new(r.step, r.step_label);
            all.devices.entry(step).or_default().insert((r.rank, r.device));
            let key = (r.part.to_string(), r.cause.map(str::to_string));
            *all.sums.entry(key).or_default().entry(step).or_default() += r.time_ns;
        })?;
        Ok(all)
    }

    /// The mean, for a device and step, of the rows that `keep` keeps.
    fn figure(&self, keep: impl Fn(&str, Option<&str>) -> bool) -> RunFigure {
        let mut sums: BTreeMap<PageStepKey, i64> = BTreeMap::new();
        let mut is_there = false;
        for ((part, cause), of) in &self.sums {
            if keep(part, cause.as_deref()) {
                is_there = true;
                of.iter().for_each(|(step, ns)| *sums.entry(*step).or_default() += ns);
            }
        }
        let windows = self.devices.iter().map(|(step, devices)| (*step, devices.len() as u64)).collect();
        let figure = RunFigure::mean(&sums, &windows);
        // What a run with an account does not have took no time.
        if is_there || !self.devices.is_empty() { figure } else { RunFigure::of_run(None) }
    }

    fn owners(&self, part: &str) -> BTreeSet<&str> {
        self.sums.keys().filter(|(p, _)| p == part).filter_map(|(_, cause)| cause.as_deref()).collect()
    }
}

fn named<'a>(group: &'a str, name: &'a str, better: Better) -> FigureName<'a> {
    FigureName { group, name, unit: Unit::Ns, better }
}

/// The account of time: what a step of a device consists of, and what owns the lost time.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn account(this: &Results, base: &Results, texts: &mut Texts) -> Result<Grid, ResultsError> {
    let mut grid = Grid::new("time_account", &HEADINGS);
    let (this, base) = (PartSums::read(this)?, PartSums::read(base)?);
    let whole = |of: &PartSums| of.figure(|_, _| true);
    push(&mut grid, texts, named("", "a step of a device", Better::Less), whole(&this), whole(&base));
    for (column, name) in TIME_PARTS {
        let part = column.trim_end_matches("_ns");
        let better = if part == "compute" { Better::Neither } else { Better::Less };
        let of = |account: &PartSums| account.figure(|p, _| p == part);
        let (a, b) = (of(&this), of(&base));
        if a.value.unwrap_or(0.0) == 0.0 && b.value.unwrap_or(0.0) == 0.0 {
            continue;
        }
        push(&mut grid, texts, named("", name, better), a, b);
        let owners: BTreeSet<&str> = this.owners(part).union(&base.owners(part)).copied().collect();
        for owner in owners {
            let of = |account: &PartSums| account.figure(|p, c| p == part && c == Some(owner));
            let shown = owner.replace('_', " ");
            push(&mut grid, texts, named(name, &shown, better), of(&this), of(&base));
        }
    }
    Ok(grid)
}

/// Names of the factors, in the order in which they multiply.
const FACTORS: [(&str, &str); 7] = [
    ("", "efficiency"),
    ("efficiency", "load balance"),
    ("efficiency", "communication"),
    ("efficiency", "orchestration"),
    ("by a replay", "serialization"),
    ("by a replay", "orchestration"),
    ("by a replay", "transfer"),
];

type FactorValues = [Option<f64>; 7];

/// The factors of the job, and of each step.
fn factors(results: &Results) -> Result<(Option<FactorValues>, Vec<FactorValues>), ResultsError> {
    let (mut job, mut steps) = (None, Vec::new());
    results.read::<Factors>(|r| {
        let values = [
            r.parallel_efficiency,
            r.load_balance,
            r.communication_efficiency,
            r.orchestration_efficiency,
            r.serialization_efficiency,
            r.replayed_orchestration_efficiency,
            r.transfer_efficiency,
        ];
        match r.scope {
            "job" => job = Some(values),
            "step" => steps.push(values),
            _ => {}
        }
    })?;
    Ok((job, steps))
}

/// The efficiency and its factors.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn efficiency(this: &Results, base: &Results, texts: &mut Texts) -> Result<Grid, ResultsError> {
    let mut grid = Grid::new("efficiency", &HEADINGS);
    let (this, base) = (factors(this)?, factors(base)?);
    for (i, (group, name)) in FACTORS.iter().enumerate() {
        let at = |of: &FactorValues| of.get(i).copied().flatten();
        let figure = |(job, steps): &(Option<FactorValues>, Vec<FactorValues>)| RunFigure {
            value: job.as_ref().and_then(at),
            noise: Noise::of(&steps.iter().filter_map(at).collect::<Vec<_>>()),
        };
        let what = FigureName { group, name, unit: Unit::Ratio, better: Better::More };
        push(&mut grid, texts, what, figure(&this), figure(&base));
    }
    Ok(grid)
}
