//! Sections that compare ranks: stragglers, bandwidth of collectives, and the estimated gain of repairs.

use crate::output::html::axis::{PageAxis, PageStep};
use crate::output::html::breakdown::{Heat, SIDE};
use crate::output::html::grid::{Cell, CellType, Grid, Heading, Section, missing};
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::collectives::tables::{CollectiveSummaries, ProcessGroups};
use hta_analysis::stragglers::tables::{Delays, StragglerCauses, StragglerTable};
use hta_analysis::what_if::WhatIfs;
use hta_base::table::schema::Text;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Largest number of verdicts, causes and repairs listed.
const MOST_VERDICTS: usize = 100;
/// Largest number of collective sizes, and of groups, listed.
const MOST_SIZES: usize = 1_500;

columns! {
    Delay of Delays {
        rank, step, step_label, process_group: Option<Text>, gain_ns: i64, excess_ns: i64, imposed_wait_ns: i64,
        wait_ns: i64,
    }
}

columns! {
    Verdict of StragglerTable {
        pattern: Text, ranks: Text, gain_per_step_ns: i64, gain_pct: Option<f64>, steps: Text, late_step_count: u32,
        behind_ranks: Option<Text>, cause: Option<Text>, cause_name: Option<Text>, cause_ns: Option<i64>,
    }
}

columns! {
    Cause of StragglerCauses {
        delta_ns: i64, rank, step, step_label, cause: Text, name: Option<Text>, op: Option<Text>, frame: Option<Text>,
    }
}

columns! {
    Collective of CollectiveSummaries {
        kind: Text, size_bytes: Option<i64>, dtype: Option<Text>, process_group: Text, count: u64, timed_count: u64,
        dur_sum_ns: i64, wait_sum_ns: Option<i64>, transfer_p50_ns: Option<i64>, alg_bw_gb_per_s: Option<f64>,
        bus_bw_gb_per_s: Option<f64>, start_skew_p50_ns: Option<i64>,
    }
}

columns! {
    Group of ProcessGroups {
        process_group: Text, member_count: u32, present_count: u32, matched_by: Text, call_count: u64,
        matched_count: u64, collective_count: u64, complete_count: u64,
    }
}

columns! {
    Repair of WhatIfs { scope, what: Text, step_ns: Option<i64>, gain_ns: Option<i64>, gain_pct: Option<f64> }
}

/// The section on stragglers.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn stragglers(results: &Results, ranks: usize, texts: &mut Texts) -> Result<Section, ResultsError> {
    let (mut all_ranks, mut all_steps) = (BTreeSet::new(), BTreeSet::new());
    let there = results.read::<Delay>(|r| {
        all_ranks.insert(r.rank);
        all_steps.extend(PageStep::new(r.step, r.step_label));
    })?;
    if all_steps.is_empty() {
        return Ok(Section::without(match (there, ranks) {
            (false, _) => missing("straggler_delays"),
            (true, 0 | 1) => "One rank: there is no other to wait for it.".to_string(),
            (true, _) => {
                "No collective could be matched across ranks, so waiting is unknown (`hta explain matching`). \
                          What differs in length between ranks is below."
                    .to_string()
            }
        }));
    }
    let (ranks, steps) = (PageAxis::new(&all_ranks, SIDE), PageAxis::new(&all_steps, SIDE));
    let mut heat = Heat::<4>::new(&ranks, &steps);
    results.read::<Delay>(|r| {
        if let (Some(step), None) = (PageStep::new(r.step, r.step_label), r.process_group) {
            heat.add(&ranks, &steps, r.rank, &step, [r.gain_ns, r.excess_ns, r.imposed_wait_ns, r.wait_ns]);
        }
    })?;
    const VALUES: &[Heading] = &[
        (
            "gain_ns",
            "gain",
            CellType::Ns,
            "how much later it arrived than the second last: what repairing it alone would gain",
        ),
        ("excess_ns", "excess", CellType::Ns, "how much longer than the median of the others it worked"),
        ("imposed_wait_ns", "others wait", CellType::Ns, "waiting of the other members where it came last"),
        ("wait_ns", "waits itself", CellType::Ns, "its own waiting"),
    ];
    let delays = heat.grid("straggler_delays", VALUES, &ranks, &steps, texts);
    let section = Section::default().with("delays", delays).with("verdicts", verdicts(results, texts)?);
    Ok(section.with("causes", causes(results, texts)?))
}

fn verdicts(results: &Results, texts: &mut Texts) -> Result<Grid, ResultsError> {
    let mut grid = Grid::new(
        "stragglers",
        &[
            ("pattern", "pattern", CellType::Text, "persistent, in some steps, rotating, late together"),
            ("ranks", "ranks", CellType::Text, "ranks that make the others wait"),
            ("gain_per_step_ns", "gain per step", CellType::Ns, "what repairing would gain, over all steps"),
            ("gain_pct", "of the step", CellType::Ratio, "the same as a share of the median step"),
            ("steps", "steps", CellType::Text, "steps in which it is late"),
            ("late_step_count", "late in", CellType::Count, "number of these steps"),
            ("behind_ranks", "hidden behind", CellType::Text, "ranks that are worse and hide it"),
            ("cause", "cause", CellType::Text, "kind of the largest cause"),
            ("cause_name", "name", CellType::Text, "kernel, operator or frame of the largest cause"),
            ("cause_ns", "costs", CellType::Ns, "time that this cause adds, over all steps"),
        ],
    );
    let mut left = 0;
    results.read::<Verdict>(|r| {
        if grid.len() == MOST_VERDICTS {
            left += 1;
            return;
        }
        grid.push([
            texts.cell(r.pattern),
            texts.cell(r.ranks),
            r.gain_per_step_ns.into(),
            r.gain_pct.map(|p| p / 100.0).into(),
            texts.cell(r.steps),
            r.late_step_count.into(),
            texts.of(r.behind_ranks),
            texts.of(r.cause),
            texts.of(r.cause_name),
            r.cause_ns.into(),
        ]);
    })?;
    grid.leave_out(left, Vec::new());
    Ok(grid)
}

fn causes(results: &Results, texts: &mut Texts) -> Result<Grid, ResultsError> {
    type Listed = (i64, u32, Option<PageStep>, [Option<String>; 4]);
    let mut found: Vec<Listed> = Vec::new();
    let (mut left, mut left_ns) = (0, 0);
    let mut drop_small = |found: &mut Vec<Listed>, most: usize| {
        found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (a.1, a.2, &a.3).cmp(&(b.1, b.2, &b.3))));
        for c in found.drain(most.min(found.len())..) {
            left += 1;
            left_ns += c.0;
        }
    };
    results.read::<Cause>(|r| {
        let names = [Some(r.cause), r.name, r.op, r.frame].map(|n| n.map(str::to_string));
        found.push((r.delta_ns, r.rank, PageStep::new(r.step, r.step_label), names));
        if found.len() > 64 * MOST_VERDICTS {
            drop_small(&mut found, MOST_VERDICTS);
        }
    })?;
    drop_small(&mut found, MOST_VERDICTS);
    let mut grid = Grid::new(
        "straggler_causes",
        &[
            ("delta_ns", "adds", CellType::Ns, "what it takes longer than on the typical rank"),
            ("rank", "rank", CellType::Id, "the late rank"),
            ("step", "step", CellType::Text, "step"),
            ("cause", "cause", CellType::Text, "kind of cause"),
            ("name", "name", CellType::Text, "kernel, operator, call or frame"),
            ("op", "operator", CellType::Text, "operator that launched it"),
            ("frame", "frame", CellType::Text, "Python frame around it, where stacks were recorded"),
        ],
    );
    for (ns, rank, step, names) in found {
        let step = step.map(|s| texts.cell(&s.to_string())).unwrap_or(Cell::Nothing);
        let mut row = vec![ns.into(), rank.into(), step];
        row.extend(names.iter().map(|n| texts.of(n.as_deref())));
        grid.push(row);
    }
    grid.leave_out(left, vec![Cell::Int(left_ns)]);
    Ok(grid)
}

/// The section on bandwidth of collectives by size, and on matching.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn collectives(results: &Results, ranks: usize, texts: &mut Texts) -> Result<Section, ResultsError> {
    struct Size {
        ints: [Option<i64>; 7],
        floats: [Option<f64>; 2],
        names: [Option<String>; 3],
    }
    let mut sizes: Vec<Size> = Vec::new();
    let (mut left, mut sums) = (0, [0; 4]);
    let mut drop_small = |sizes: &mut Vec<Size>, most: usize| {
        let order = |s: &Size| (Reverse(s.ints[3]), s.names.clone(), s.ints[0]);
        sizes.sort_by_cached_key(order);
        for s in sizes.drain(most.min(sizes.len())..) {
            left += 1;
            sums.iter_mut().zip([1, 2, 3, 4]).for_each(|(sum, i)| *sum += s.ints[i].unwrap_or(0));
        }
    };
    let there = results.read::<Collective>(|r| {
        let counts = [r.count, r.timed_count].map(|n| i64::try_from(n).ok());
        let times = [Some(r.dur_sum_ns), r.wait_sum_ns, r.transfer_p50_ns, r.start_skew_p50_ns];
        sizes.push(Size {
            ints: [r.size_bytes, counts[0], counts[1], times[0], times[1], times[2], times[3]],
            floats: [r.alg_bw_gb_per_s, r.bus_bw_gb_per_s],
            names: [Some(r.kind), r.dtype, Some(r.process_group)].map(|n| n.map(str::to_string)),
        });
        if sizes.len() > 16 * MOST_SIZES {
            drop_small(&mut sizes, MOST_SIZES);
        }
    })?;
    drop_small(&mut sizes, MOST_SIZES);
    if sizes.is_empty() {
        return Ok(Section::without(match (there, ranks) {
            (false, _) => missing("collective_summary"),
            (true, 0 | 1) => "One rank: a transfer is known only where the other ranks' arrivals are. Give all ranks of the job.".to_string(),
            (true, _) => "No collective could be matched across ranks: the traces hold none, or not what tells them apart (`hta explain matching`).".to_string(),
        }));
    }
    let mut grid = Grid::new(
        "collective_summary",
        &[
            ("kind", "kind", CellType::Text, "kind of collective"),
            ("dtype", "type", CellType::Text, "element type"),
            ("process_group", "group", CellType::Text, "name and members of the group"),
            ("size_bytes", "size", CellType::Bytes, "size; the largest over members"),
            ("count", "count", CellType::Count, "instances"),
            ("timed_count", "timed", CellType::Count, "complete instances with a transfer time"),
            ("dur_sum_ns", "time", CellType::Ns, "length of all calls on all ranks"),
            ("wait_sum_ns", "waiting", CellType::Ns, "waiting in all calls"),
            ("transfer_p50_ns", "transfer", CellType::Ns, "median transfer time of the rank that came last"),
            ("start_skew_p50_ns", "skew", CellType::Ns, "last minus first arrival, median"),
            ("alg_bw_gb_per_s", "algorithm bandwidth", CellType::GbPerS, "sum of sizes / sum of transfer times"),
            ("bus_bw_gb_per_s", "bus bandwidth", CellType::GbPerS, "the same times the factor of nccl-tests"),
        ],
    );
    for s in &sizes {
        let mut row: Vec<Cell> = s.names.iter().map(|n| texts.of(n.as_deref())).collect();
        row.extend(s.ints.map(Cell::from));
        row.extend(s.floats.map(Cell::from));
        grid.push(row);
    }
    let none = [Cell::Nothing; 4].into_iter();
    grid.leave_out(left, none.chain(sums.map(Cell::Int)).collect());
    let unsized_count = sizes.iter().filter(|s| s.ints[0].unwrap_or(0) <= 0 || s.floats[1].is_none()).count();
    if unsized_count > 0 {
        let (rows, they) = match unsized_count {
            1 => ("1 row has".to_string(), "it is"),
            n => (format!("{n} rows have"), "they are"),
        };
        grid.notes.push(format!("{rows} no known size or transfer: {they} in the table, not in the chart."));
    }
    Ok(Section::default().with("sizes", grid).with("groups", groups(results, texts)?))
}

fn groups(results: &Results, texts: &mut Texts) -> Result<Grid, ResultsError> {
    let mut grid = Grid::new(
        "process_groups",
        &[
            ("process_group", "group", CellType::Text, "name and members"),
            ("member_count", "members", CellType::Count, "ranks in the group"),
            ("present_count", "present", CellType::Count, "of these, ranks whose trace is there"),
            (
                "matched_by",
                "matched by",
                CellType::Text,
                "evidence: seq, sequence, inferred, peers; `hta explain matching`",
            ),
            ("call_count", "calls", CellType::Count, "calls of all ranks"),
            ("matched_count", "matched", CellType::Count, "calls that were matched"),
            ("collective_count", "collectives", CellType::Count, "instances"),
            ("complete_count", "complete", CellType::Count, "instances that every member recorded"),
        ],
    );
    let (mut left, mut sums) = (0, [0; 4]);
    results.read::<Group>(|r| {
        let counts = [r.call_count, r.matched_count, r.collective_count, r.complete_count];
        if grid.len() == MOST_VERDICTS {
            left += 1;
            sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n as i64);
            return;
        }
        let group = [texts.cell(r.process_group), r.member_count.into(), r.present_count.into()];
        grid.push(group.into_iter().chain([texts.cell(r.matched_by)]).chain(counts.map(Cell::from)));
    })?;
    let none = [Cell::Nothing; 4].into_iter();
    grid.leave_out(left, none.chain(sums.map(Cell::Int)).collect());
    Ok(grid)
}

/// The section on the estimated gain of repairs.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn what_if(results: &Results, texts: &mut Texts) -> Result<Section, ResultsError> {
    let mut grid = Grid::new(
        "what_if",
        &[
            ("scope", "repair of", CellType::Text, "all, a rank, a step or a cause"),
            ("what", "what", CellType::Text, "what is repaired"),
            ("step_ns", "step then", CellType::Ns, "mean step with the repair"),
            ("gain_ns", "gain per step", CellType::Ns, "mean step of the replay without repairs minus that"),
            ("gain_pct", "of the step", CellType::Ratio, "of the mean step of the replay without repairs"),
        ],
    );
    let mut left = 0;
    let there = results.read::<Repair>(|r| {
        // Rows are sorted by gain within each scope. Repairs without a gain are not shown.
        if r.gain_ns.unwrap_or(0) <= 0 {
            return;
        }
        if grid.len() == MOST_VERDICTS {
            left += 1;
            return;
        }
        let share = r.gain_pct.map(|p| p / 100.0);
        grid.push([texts.cell(r.scope), texts.cell(r.what), r.step_ns.into(), r.gain_ns.into(), share.into()]);
    })?;
    grid.leave_out(left, Vec::new());
    Ok(match (there, grid.len()) {
        (false, _) => Section::without(missing("what_if")),
        (true, 0) => Section::without(
            "No repair of a rank, step or cause would make the step shorter. With one rank, or without matched \
             collectives, there is nothing to replay.",
        ),
        _ => Section::default().with("repairs", grid),
    })
}
