//! Sections that compare ranks: stragglers, bandwidth of collectives, and the estimated gain of repairs.

use crate::output::html::axis::{Axis, Step};
use crate::output::html::breakdown::{Heat, SIDE};
use crate::output::html::grid::{Cell, Grid, Heading, Kind, Section, missing};
use crate::output::html::results::{Results, ResultsError};
use crate::output::html::texts::Texts;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Largest number of verdicts, causes and repairs listed.
const MOST_VERDICTS: usize = 100;
/// Largest number of sizes of collectives, and of groups, listed.
const MOST_SIZES: usize = 1_500;

/// The section on stragglers.
///
/// # Errors
/// When a table is damaged.
pub fn stragglers(results: &Results, ranks: usize, texts: &mut Texts) -> Result<Section, ResultsError> {
    let (mut all_ranks, mut all_steps) = (BTreeSet::new(), BTreeSet::new());
    let there = results.read("straggler_delays", &["rank", "step", "step_label"], |rows| {
        for r in 0..rows.len() {
            all_ranks.insert(rows.rank(0, r));
            all_steps.extend(Step::new(rows.int(1, r), rows.int(2, r)));
        }
    })?;
    if all_steps.is_empty() {
        return Ok(Section::without(match (there, ranks) {
            (false, _) => missing("straggler_delays"),
            (true, 0 | 1) => "One rank: there is no other to wait for it.".to_string(),
            (true, _) => {
                "No collective could be matched across ranks, so nobody can be seen waiting (`hta explain matching`). \
                          What differs in length between ranks is below."
                    .to_string()
            }
        }));
    }
    let (ranks, steps) = (Axis::new(&all_ranks, SIDE), Axis::new(&all_steps, SIDE));
    let mut heat = Heat::<4>::new(&ranks, &steps);
    const COLUMNS: &[&str] =
        &["rank", "step", "step_label", "process_group", "gain_ns", "excess_ns", "imposed_wait_ns", "wait_ns"];
    results.read("straggler_delays", COLUMNS, |rows| {
        for r in (0..rows.len()).filter(|&r| rows.text(3, r).is_none()) {
            if let Some(step) = Step::new(rows.int(1, r), rows.int(2, r)) {
                heat.add(&ranks, &steps, rows.rank(0, r), &step, [4, 5, 6, 7].map(|c| rows.sum(c, r)));
            }
        }
    })?;
    const VALUES: &[Heading] = &[
        ("gain_ns", "gain", Kind::Ns, "how much later than the second last it came: what repairing it alone gives"),
        ("excess_ns", "excess", Kind::Ns, "how much longer than the median of the others it worked"),
        ("imposed_wait_ns", "others wait", Kind::Ns, "waiting of the other members where it came last"),
        ("wait_ns", "waits itself", Kind::Ns, "its own waiting"),
    ];
    let delays = heat.grid("straggler_delays", VALUES, &ranks, &steps, texts);
    let section = Section::default().with("delays", delays).with("verdicts", verdicts(results, texts)?);
    Ok(section.with("causes", causes(results, texts)?))
}

fn verdicts(results: &Results, texts: &mut Texts) -> Result<Grid, ResultsError> {
    let mut grid = Grid::new(
        "stragglers",
        &[
            ("pattern", "pattern", Kind::Text, "persistent, in some steps, rotating, late together"),
            ("ranks", "ranks", Kind::Text, "ranks that make the others wait"),
            ("gain_per_step_ns", "gain per step", Kind::Ns, "what repairing gives, over all steps"),
            ("gain_pct", "of the step", Kind::Ratio, "the same as a share of the median step"),
            ("steps", "steps", Kind::Text, "steps in which it is late"),
            ("late_step_count", "late in", Kind::Count, "number of these steps"),
            ("behind_ranks", "hidden behind", Kind::Text, "ranks that are worse and hide it"),
            ("cause", "cause", Kind::Text, "kind of the largest cause"),
            ("cause_name", "name", Kind::Text, "kernel, operator or frame of the largest cause"),
            ("cause_ns", "costs", Kind::Ns, "what this cause adds, over all steps"),
        ],
    );
    const COLUMNS: &[&str] = &[
        "pattern",
        "ranks",
        "gain_per_step_ns",
        "gain_pct",
        "steps",
        "late_step_count",
        "behind_ranks",
        "cause",
        "cause_name",
        "cause_ns",
    ];
    let mut left = 0;
    results.read("stragglers", COLUMNS, |rows| {
        for r in 0..rows.len() {
            if grid.len() == MOST_VERDICTS {
                left += 1;
                continue;
            }
            grid.push([
                texts.of(rows.text(0, r)),
                texts.of(rows.text(1, r)),
                rows.int(2, r).into(),
                rows.float(3, r).map(|p| p / 100.0).into(),
                texts.of(rows.text(4, r)),
                rows.int(5, r).into(),
                texts.of(rows.text(6, r)),
                texts.of(rows.text(7, r)),
                texts.of(rows.text(8, r)),
                rows.int(9, r).into(),
            ]);
        }
    })?;
    grid.leave_out(left, Vec::new());
    Ok(grid)
}

fn causes(results: &Results, texts: &mut Texts) -> Result<Grid, ResultsError> {
    const COLUMNS: &[&str] = &["delta_ns", "rank", "step", "step_label", "cause", "name", "op", "frame"];
    type Cause = (i64, u32, Option<Step>, [Option<String>; 4]);
    let mut found: Vec<Cause> = Vec::new();
    let (mut left, mut left_ns) = (0, 0);
    let mut drop_small = |found: &mut Vec<Cause>, most: usize| {
        found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (a.1, a.2, &a.3).cmp(&(b.1, b.2, &b.3))));
        for c in found.drain(most.min(found.len())..) {
            left += 1;
            left_ns += c.0;
        }
    };
    results.read("straggler_causes", COLUMNS, |rows| {
        for r in 0..rows.len() {
            let step = Step::new(rows.int(2, r), rows.int(3, r));
            let names = [4, 5, 6, 7].map(|c| rows.text(c, r).map(str::to_string));
            found.push((rows.sum(0, r), rows.rank(1, r), step, names));
        }
        if found.len() > 64 * MOST_VERDICTS {
            drop_small(&mut found, MOST_VERDICTS);
        }
    })?;
    drop_small(&mut found, MOST_VERDICTS);
    let mut grid = Grid::new(
        "straggler_causes",
        &[
            ("delta_ns", "adds", Kind::Ns, "what it takes longer than on the typical rank"),
            ("rank", "rank", Kind::Id, "the late rank"),
            ("step", "step", Kind::Text, "step"),
            ("cause", "cause", Kind::Text, "kind of cause"),
            ("name", "name", Kind::Text, "kernel, operator, call or frame"),
            ("op", "operator", Kind::Text, "operator that launched it"),
            ("frame", "frame", Kind::Text, "Python frame around it, where stacks were recorded"),
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
pub fn collectives(results: &Results, ranks: usize, texts: &mut Texts) -> Result<Section, ResultsError> {
    const COLUMNS: &[&str] = &[
        "kind",
        "size_bytes",
        "dtype",
        "process_group",
        "member_count",
        "count",
        "timed_count",
        "dur_sum_ns",
        "wait_sum_ns",
        "transfer_p50_ns",
        "alg_bw_gb_per_s",
        "bus_bw_gb_per_s",
        "start_skew_p50_ns",
    ];
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
    let there = results.read("collective_summary", COLUMNS, |rows| {
        for r in 0..rows.len() {
            sizes.push(Size {
                ints: [1, 5, 6, 7, 8, 9, 12].map(|c| rows.int(c, r)),
                floats: [10, 11].map(|c| rows.float(c, r)),
                names: [0, 2, 3].map(|c| rows.text(c, r).map(str::to_string)),
            });
        }
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
            ("kind", "kind", Kind::Text, "kind of collective"),
            ("dtype", "type", Kind::Text, "element type"),
            ("process_group", "group", Kind::Text, "name and members of the group"),
            ("size_bytes", "size", Kind::Bytes, "size; the largest over members"),
            ("count", "count", Kind::Count, "instances"),
            ("timed_count", "timed", Kind::Count, "complete instances with a transfer time"),
            ("dur_sum_ns", "time", Kind::Ns, "length of all calls on all ranks"),
            ("wait_sum_ns", "waiting", Kind::Ns, "waiting in all calls"),
            ("transfer_p50_ns", "transfer", Kind::Ns, "median transfer time of the rank that came last"),
            ("start_skew_p50_ns", "skew", Kind::Ns, "last minus first arrival, median"),
            ("alg_bw_gb_per_s", "algorithm bandwidth", Kind::GbPerS, "sum of sizes / sum of transfer times"),
            ("bus_bw_gb_per_s", "bus bandwidth", Kind::GbPerS, "the same times the factor of nccl-tests"),
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
            ("process_group", "group", Kind::Text, "name and members"),
            ("member_count", "members", Kind::Count, "ranks in the group"),
            ("present_count", "present", Kind::Count, "of these, ranks whose trace is there"),
            (
                "matched_by",
                "matched by",
                Kind::Text,
                "evidence: seq, sequence, inferred, peers; `hta explain matching`",
            ),
            ("call_count", "calls", Kind::Count, "calls of all ranks"),
            ("matched_count", "matched", Kind::Count, "calls that were matched"),
            ("collective_count", "collectives", Kind::Count, "instances"),
            ("complete_count", "complete", Kind::Count, "instances that every member recorded"),
        ],
    );
    const COLUMNS: &[&str] = &[
        "process_group",
        "member_count",
        "present_count",
        "matched_by",
        "call_count",
        "matched_count",
        "collective_count",
        "complete_count",
    ];
    let (mut left, mut sums) = (0, [0; 4]);
    results.read("process_groups", COLUMNS, |rows| {
        for r in 0..rows.len() {
            if grid.len() == MOST_VERDICTS {
                left += 1;
                sums.iter_mut().zip([4, 5, 6, 7]).for_each(|(sum, c)| *sum += rows.sum(c, r));
                continue;
            }
            let mut row = vec![
                texts.of(rows.text(0, r)),
                rows.int(1, r).into(),
                rows.int(2, r).into(),
                texts.of(rows.text(3, r)),
            ];
            row.extend([4, 5, 6, 7].map(|c| Cell::from(rows.int(c, r))));
            grid.push(row);
        }
    })?;
    let none = [Cell::Nothing; 4].into_iter();
    grid.leave_out(left, none.chain(sums.map(Cell::Int)).collect());
    Ok(grid)
}

/// The section on the estimated gain of repairs.
///
/// # Errors
/// When the table is damaged.
pub fn what_if(results: &Results, texts: &mut Texts) -> Result<Section, ResultsError> {
    let mut grid = Grid::new(
        "what_if",
        &[
            ("scope", "repair of", Kind::Text, "all, a rank, a step or a cause"),
            ("what", "what", Kind::Text, "what is repaired"),
            ("step_ns", "step then", Kind::Ns, "mean step with the repair"),
            ("gain_ns", "gain per step", Kind::Ns, "mean step as replayed minus that"),
            ("gain_pct", "of the step", Kind::Ratio, "of the mean step as replayed"),
        ],
    );
    let mut left = 0;
    let there = results.read("what_if", &["scope", "what", "step_ns", "gain_ns", "gain_pct"], |rows| {
        for r in 0..rows.len() {
            // Rows are sorted by gain within each scope; repairs without gain are left out.
            if rows.sum(3, r) <= 0 {
                continue;
            }
            if grid.len() == MOST_VERDICTS {
                left += 1;
                continue;
            }
            let share = rows.float(4, r).map(|p| p / 100.0);
            let names = [0, 1].map(|c| texts.of(rows.text(c, r)));
            grid.push(names.into_iter().chain([rows.int(2, r).into(), rows.int(3, r).into(), share.into()]));
        }
    })?;
    grid.leave_out(left, Vec::new());
    Ok(match (there, grid.len()) {
        (false, _) => Section::without(missing("what_if")),
        (true, 0) => Section::without(
            "No repair of a rank, step or cause would make the step shorter; one rank, or no matched collectives, gives nothing to replay.",
        ),
        _ => Section::default().with("repairs", grid),
    })
}
