//! Reduces the kernel counters of all ranks to the printed table.

use crate::api::{Align, Options, Output, Partial, View};
use crate::counters::recorded::{self, EnergyTable, HardwareCounterMeans};
use crate::counters::{CounterMeanRow, CounterMeans, STEPS};
use crate::population::{groups, reasons, several_devices};
use crate::worst_first::WorstFirst;
use hta_base::table::schema::TableSpec;
use hta_base::units::{fmt_ns, fmt_pct, percent};

/// What the columns mean, and why some are empty.
fn words(rows: &[CounterMeanRow]) -> Vec<&'static str> {
    if rows.is_empty() {
        return Vec::new();
    }
    let mut words = vec![
        "utilization: kernels, without copies; SM efficiency and occupancy are estimates from grids",
        "known: of the kernels' time, with blocks per SM and with an occupancy",
    ];
    let lacks = |pct: Option<f64>| pct == Some(0.0);
    if rows.iter().any(|r| r.kernel_ns > 0 && lacks(r.blocks_known_pct) && lacks(r.occupancy_known_pct)) {
        words.push(
            "0 % known: the file records neither these numbers of kernels nor the properties of the device \
             from which they follow",
        );
    }
    words
}

/// `noun`: what steps are called.
pub fn reduce(partials: &[Partial], noun: &str, options: &Options) -> Output {
    let several = several_devices(&groups::<CounterMeans>(partials));
    let mut rows: Vec<CounterMeanRow> = Vec::new();
    for p in partials {
        let of = |scope: &'static str| p.rows::<CounterMeans>().filter(move |r| r.scope == scope);
        let before = rows.len();
        rows.extend(of(STEPS));
        if rows.len() == before {
            rows.extend(of("span"));
        }
    }
    let mut notes = reasons(partials);
    // Sort the least used devices first, by the share of the window without a kernel, computed in integers.
    let unused = |row: &CounterMeanRow| {
        let window = i128::from(row.dur_ns);
        ((window - i128::from(row.kernel_ns)) << 40).checked_div(window).unwrap_or(0)
    };
    let shown = WorstFirst::new(&rows, options.top, unused);
    notes.extend(words(&rows).into_iter().map(str::to_string));
    let name = |row: &CounterMeanRow| {
        let device = row.device.filter(|_| several).map_or(String::new(), |d| format!(" device {d}"));
        (row.rank, device)
    };
    let cells = |name: String, of: &[&CounterMeanRow]| {
        let window = of.iter().map(|r| r.dur_ns).sum::<i64>();
        // Means over time can be combined by weighting with the lengths of the windows; means weighted by
        // kernel time cannot.
        let parts = of.iter().map(|r| Some(r.sm_efficiency_ratio? * r.dur_ns as f64));
        let sm_efficiency =
            parts.sum::<Option<f64>>().filter(|_| window > 0).map(|s| 100.0 * s / window as f64);
        let one = match of {
            [one] => Some(one),
            _ => None,
        };
        vec![
            name,
            fmt_ns(window / of.len().max(1) as i64),
            fmt_pct(percent(of.iter().map(|r| r.kernel_ns).sum(), window)),
            fmt_pct(sm_efficiency),
            fmt_pct(one.and_then(|r| r.est_occupancy_pct)),
            fmt_pct(one.and_then(|r| r.blocks_known_pct)),
            fmt_pct(one.and_then(|r| r.occupancy_known_pct)),
        ]
    };
    let shown = shown.rows(name, cells);
    notes.extend(shown.others_note("device", "means", "with no lower utilization"));
    let view = View {
        title: "How busy kernels keep each device, first to last step".to_string(),
        columns: vec![
            ("ranks", Align::Left),
            ("window", Align::Right),
            ("utilization", Align::Right),
            ("SM eff.", Align::Right),
            ("occupancy", Align::Right),
            ("known", Align::Right),
            ("known occ.", Align::Right),
        ],
        rows: shown.rows,
        notes,
    };
    let by_rank = recorded::by_rank(partials);
    let views = std::iter::once(view).chain(recorded::view(&by_rank, partials, options)).collect();
    let kept = [CounterMeans::SPEC, HardwareCounterMeans::SPEC, EnergyTable::SPEC];
    let of_ranks = kept
        .into_iter()
        .flat_map(|spec: &'static TableSpec| partials.iter().filter_map(move |p| p.table(spec).cloned()));
    Output {
        energy: recorded::energy_of_job(&by_rank, partials, noun),
        tables: of_ranks.chain([by_rank]).collect(),
        observations: Vec::new(),
        views,
        ..Output::default()
    }
}
