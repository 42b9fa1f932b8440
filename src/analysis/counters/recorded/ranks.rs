//! Recorded counters over ranks: one row for each device, beside what is computed from its kernels.

use super::energy_line::{DeviceOfRank, KnownEnergy, energy_of_devices};
use super::tables::{EnergyTable, HardwareByRank, HardwareByRankRow, HardwareCounterMeans, HardwareMeanRow};
use crate::api::{Align, Options, Partial, View};
use crate::counters::CounterMeans;
use crate::worst_first::WorstFirst;
use hta_base::order_statistics::median_of_sorted;
use hta_base::table::schema::{Batch, Table};
use hta_base::units::{fmt_joules, fmt_ns_tenths, fmt_number, fmt_pct};
use hta_trace::hardware_counters::{CounterSource, source_of};
use std::collections::{BTreeMap, BTreeSet};

/// What a row is made of.
#[derive(Default)]
struct DeviceRow {
    row: HardwareByRankRow<'static>,
    /// Of whole steps.
    step_energies: Vec<f64>,
    /// Energy and tokens of whole steps whose tokens are known.
    of_tokens: (f64, u64),
}

type ByDevice = BTreeMap<(u32, Option<i64>), DeviceRow>;

/// The table of all devices with recorded counters.
pub(crate) fn by_rank(partials: &[Partial]) -> Batch {
    let mut all = ByDevice::new();
    for partial in partials {
        for mean in partial.rows::<HardwareCounterMeans>() {
            let of = all.entry((mean.rank, mean.device)).or_default();
            add_mean(&mut of.row, &mean);
        }
        add_energy(&mut all, partial);
        for computed in partial.rows::<CounterMeans>().filter(|r| r.scope == "span") {
            if let Some(of) = all.get_mut(&(computed.rank, computed.device)) {
                of.row.sm_efficiency_pct = computed.sm_efficiency_ratio.map(|r| 100.0 * r);
            }
        }
    }
    let mut table = HardwareByRank::default();
    for ((rank, device), mut of) in all {
        of.step_energies.sort_by(f64::total_cmp);
        let (energy, tokens) = of.of_tokens;
        table.push(HardwareByRankRow {
            rank,
            device,
            step_count: of.step_energies.len() as u64,
            step_energy_j: median_of_sorted(&of.step_energies),
            token_energy_j: (tokens > 0).then(|| energy / tokens as f64),
            ..of.row
        });
    }
    table.finish()
}

fn add_mean(row: &mut HardwareByRankRow<'static>, mean: &HardwareMeanRow) {
    let is_pct = mean.unit == Some("%");
    match source_of(mean.counter) {
        CounterSource::PmSampling => row.sampled_every_ns = mean.period_ns,
        _ if mean.kind == "power" => row.power_every_ns = mean.period_ns,
        _ => {}
    }
    let slot = match (mean.kind, mean.scope) {
        ("sm_active", "span") if is_pct => &mut row.sm_active_pct,
        ("sm_active", "busy") if is_pct => &mut row.sm_active_busy_pct,
        ("hbm", "busy") if is_pct => &mut row.hbm_busy_pct,
        ("sm_clock", "busy") => &mut row.sm_clock_mhz,
        ("power", "capture") => &mut row.power_w,
        ("temperature", "capture") => {
            row.temperature_max_c = row.temperature_max_c.or(mean.max);
            return;
        }
        _ => return,
    };
    // Of two metrics of one kind the first by name.
    *slot = slot.or(mean.mean);
}

fn add_energy(all: &mut ByDevice, partial: &Partial) {
    for energy in partial.rows::<EnergyTable>() {
        let of = all.entry((energy.rank, energy.device)).or_default();
        match (energy.scope, energy.j) {
            ("capture", j) => of.row.energy_j = j,
            // A step of which a part is recorded takes less than the others, and has tokens of a whole one.
            ("step", Some(j)) if energy.is_partial != Some(true) => {
                of.step_energies.push(j);
                if let Some(tokens) = energy.tokens.filter(|n| *n > 0) {
                    of.of_tokens.0 += j;
                    of.of_tokens.1 += tokens;
                }
            }
            _ => {}
        }
    }
}

/// The devices that work, with their ranks.
fn working(partials: &[Partial]) -> BTreeSet<DeviceOfRank> {
    partials.iter().flat_map(|p| p.rows::<CounterMeans>().map(|r| (r.rank, r.device))).collect()
}

/// The energy of the devices that work, in one line.
pub(crate) fn energy_of_job(table: &Batch, partials: &[Partial], noun: &str) -> Option<String> {
    let known = HardwareByRank::rows(table).map(|r| {
        let energy = KnownEnergy { step: r.step_energy_j, token: r.token_energy_j, capture: r.energy_j };
        ((r.rank, r.device), energy)
    });
    energy_of_devices(&working(partials), &known.collect(), noun)
}

/// The printed table; `None` if no counter was recorded.
pub(crate) fn view(table: &Batch, partials: &[Partial], options: &Options) -> Option<View> {
    let rows: Vec<HardwareByRankRow> = HardwareByRank::rows(table).collect();
    if rows.is_empty() {
        return None;
    }
    let working = working(partials);
    // A rank stands for the device that works for it, if there is only one.
    let is_only_one = |row: &HardwareByRankRow| {
        let is_other = |of: &(u32, Option<i64>)| of.0 == row.rank && of.1 != row.device;
        working.contains(&(row.rank, row.device)) && !working.iter().any(is_other)
    };
    // Those whose SMs have least work first.
    let unused = |row: &HardwareByRankRow| row.sm_active_pct.map(|pct| ((100.0 - pct) * 1e6) as i64);
    let shown = WorstFirst::new(&rows, options.top, unused).rows(
        |row| {
            let device = row.device.filter(|_| !is_only_one(row));
            (row.rank, device.map_or(String::new(), |d| format!(" device {d}")))
        },
        cells,
    );
    // What no device has needs no column.
    let is_known =
        |at: &usize| *at == 0 || shown.rows.iter().any(|row| row.get(*at).is_some_and(|c| c != "-"));
    let known: Vec<usize> = (0..COLUMNS.len()).filter(is_known).collect();
    let title = "Hardware counters, recorded beside computed".to_string();
    if known.len() == 1 {
        let note = "counters are recorded, but give no means and no energy: the tables \
                    hardware_counter_means and energy say why";
        return Some(View { title, columns: Vec::new(), rows: Vec::new(), notes: vec![note.to_string()] });
    }
    let mut notes = vec![
        "SM active, HBM, clock, power: sampled by the device; SM eff.: estimated from grids over the same \
         time"
            .to_string(),
        "busy: while an activity runs; a sample holds all that ran in its time, not one kernel".to_string(),
    ];
    if rows.iter().any(|r| r.sm_clock_mhz.is_some() && r.sampled_every_ns.is_some()) {
        notes.push(
            "sampling of such metrics locks the clocks: here they say nothing about throttling".to_string(),
        );
    }
    if rows.iter().all(|r| r.energy_j.is_none()) {
        notes.push("no energy: it needs two samples of power that cover 90 % of the time".to_string());
    }
    notes.extend(shown.others_note("device", "means", "with no lower SM activity"));
    if known.iter().all(|at| *at <= 1) {
        notes.push("no means: one sample, or samples for less than half of the time".to_string());
    }
    let align = |at: usize| if at == 0 { Align::Left } else { Align::Right };
    let row = |cells: &Vec<String>| known.iter().filter_map(|at| cells.get(*at).cloned()).collect();
    Some(View {
        title,
        columns: known.iter().filter_map(|at| Some((*COLUMNS.get(*at)?, align(*at)))).collect(),
        rows: shown.rows.iter().map(row).collect(),
        notes,
    })
}

/// Headings of the printed table.
const COLUMNS: [&str; 10] = [
    "ranks",
    "sampled every",
    "SM active",
    "SM eff.",
    "SM active, busy",
    "HBM, busy",
    "SM clock",
    "power",
    "energy / step",
    "energy / token",
];

fn cells(name: String, of: &[&HardwareByRankRow]) -> Vec<String> {
    let mean = |value: fn(&HardwareByRankRow) -> Option<f64>| {
        let values: Option<Vec<f64>> = of.iter().map(|row| value(row)).collect();
        values.filter(|v| !v.is_empty()).map(|v| v.iter().sum::<f64>() / v.len() as f64)
    };
    let shown = |value: Option<f64>, unit: &str| value.map_or("-".to_string(), |v| fmt_number(v) + unit);
    let every = of.first().and_then(|row| row.sampled_every_ns);
    let energy = |value: Option<f64>| value.map_or("-".to_string(), fmt_joules);
    vec![
        name,
        every
            .filter(|e| of.iter().all(|row| row.sampled_every_ns == Some(*e)))
            .map_or("-".to_string(), fmt_ns_tenths),
        fmt_pct(mean(|r| r.sm_active_pct)),
        fmt_pct(mean(|r| r.sm_efficiency_pct)),
        fmt_pct(mean(|r| r.sm_active_busy_pct)),
        fmt_pct(mean(|r| r.hbm_busy_pct)),
        shown(mean(|r| r.sm_clock_mhz), " MHz"),
        shown(mean(|r| r.power_w), " W"),
        energy(mean(|r| r.step_energy_j)),
        energy(mean(|r| r.token_energy_j)),
    ]
}
