//! Recorded counters over ranks: one row for each device, beside what is computed from its kernels.

use super::energy_line::{DeviceOfRank, KnownEnergy, energy_of_devices};
use super::tables::{EnergyTable, HardwareByRank, HardwareByRankRow, HardwareCounterMeans, HardwareMeanRow};
use crate::api::Partial;
use crate::counters::CounterMeans;
use hta_base::order_statistics::median_of_sorted;
use hta_base::table::schema::{Batch, Table};
use hta_base::table::view::{Fold, Note, TableError, ViewScope, ViewSpec};
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

/// The printed table.
pub(crate) const VIEW: ViewSpec = ViewSpec {
    title: "Hardware counters, recorded beside computed",
    also: &[CounterMeans::SPEC],
    columns: &[
        "rank",
        "device?",
        "sampled_every_ns?",
        "sm_active_pct?",
        "sm_efficiency_pct?",
        "sm_active_busy_pct?",
        "hbm_busy_pct?",
        "sm_clock_mhz?",
        "power_w?",
        "step_energy_j?",
        "token_energy_j?",
    ],
    by: "sm_active_pct ascending",
    fold: Fold::Worst,
    notes: &[
        Note::Text(
            "SM active, HBM, clock, power: sampled by the device; SM eff.: estimated from grids over the \
             same time",
        ),
        Note::Text("busy: while an activity runs; a sample holds all that ran in its time, not one kernel"),
        Note::If(
            "sampled_every_ns",
            "sampling of such metrics locks the clocks: here they say nothing about throttling",
        ),
        Note::Made(not_working),
        Note::Made(lacking),
    ],
    ..ViewSpec::of(HardwareByRank::SPEC)
};

/// Devices with counters on which their ranks do not work.
fn not_working(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let mut working = BTreeSet::new();
    scope.each::<CounterMeans>(|r| {
        working.insert((r.rank, r.device));
    })?;
    let mut others = Vec::new();
    scope.each::<HardwareByRank>(|r| {
        let device = r.device.filter(|_| !working.contains(&(r.rank, r.device)));
        others.extend(device.map(|device| format!("device {device} of rank {}", r.rank)));
    })?;
    Ok((!others.is_empty()).then(|| format!("sampled, but without activities: {}", others.join(", "))))
}

/// What no device has, and why.
fn lacking(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let (mut has_rows, mut has_means, mut has_energy) = (false, false, false);
    scope.each::<HardwareByRank>(|r| {
        has_rows = true;
        has_energy |= r.energy_j.is_some();
        let means = [r.sm_active_pct, r.sm_efficiency_pct, r.sm_active_busy_pct, r.hbm_busy_pct];
        has_means |= means.into_iter().chain([r.sm_clock_mhz, r.power_w]).any(|mean| mean.is_some());
    })?;
    let why = match (has_means, has_energy) {
        (true, true) => return Ok(None),
        (true, false) => "no energy: it needs two samples of power that cover 90 % of the time",
        (false, _) => {
            "no means: one sample, or samples for less than half of the time; the tables \
                       hardware_counter_means and energy say why"
        }
    };
    Ok(has_rows.then(|| why.to_string()))
}
