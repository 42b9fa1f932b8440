//! Temporal breakdown: what each device was doing at each instant.

use crate::api::{About, Analysis, Options, Partial, RowEmitter};
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::Text;
use hta_base::table::view::{Fold, Note, TableError, ViewScope, ViewSpec};
use hta_base::units::percent;
use hta_base::wording::counts::counted;
use hta_facts::windows::WindowAccounts;
use hta_job::recording::capability::Capability;
use hta_trace::rank_trace::RankTrace;

table! {
    /// What a device was doing in a window; compute + fused + exposed communication + copies + idle = dur.
    /// Exposed communication is waiting or transfer, which the table `sync` divides.
    pub struct Breakdowns, BreakdownRow = "temporal_breakdown" by "rank, device, scope, step" {
        rank; device; scope; step; step_label; is_partial; ts_ns; dur_ns;
        basis: Text, "", "gpu: device activities; cpu: host work of a rank without a GPU";
        compute_ns: i64, "ns", "|C|: compute runs";
        exposed_communication_ns: i64, "ns", "|K \\ (C u F)|: communication runs, neither compute nor fused";
        copies_ns: i64, "ns", "|M \\ (C u F u K)|: only copies or sets run";
        idle_ns: i64, "ns", "nothing runs";
        communication_ns: i64, "ns", "|K|";
        memory_ns: i64, "ns", "|M|";
        busy_ns: i64, "ns", "|C u F u K u M|";
        compute_pct: Option<f64>, "%", "of the window";
        exposed_communication_pct: Option<f64>, "%", "of the window";
        copies_pct: Option<f64>, "%", "of the window";
        idle_pct: Option<f64>, "%", "of the window";
        communication_pct: Option<f64>, "%", "of the window";
        memory_pct: Option<f64>, "%", "of the window";
        busy_pct: Option<f64>, "%", "of the window";
        fused_ns: i64, "ns", "|F \\ C|: a fused kernel (exchange and product in one) runs and no compute";
        beside_fused_ns: i64, "ns", "|K n F \\ C|: communication beside fused kernels";
        exposed_upper_ns: i64, "ns", "exposed communication + fused: the most that can be exposed";
        fused_pct: Option<f64>, "%", "of the window";
    }
}

table! {
    /// What each device was doing in the windows that averages are based on: full steps, or else the span.
    pub(crate) struct DeviceBreakdowns, DeviceBreakdownRow = "breakdown_by_device" by "rank, device" {
        rank; device;
        is_steps: bool, "", "the windows are steps" => are_steps;
        all_partial: Option<bool>, "", "all steps are partial, and therefore used" => min(is_partial);
        window_count: u64, "", "windows" => rows;
        dur_ns: i64, "ns", "sum of their lengths", "window" => sum(dur_ns);
        compute_ns: i64, "ns", "compute runs" => sum(compute_ns);
        fused_ns: i64, "ns", "a fused kernel runs and no compute" => sum(fused_ns);
        exposed_communication_ns: i64, "ns", "communication runs, neither compute nor fused"
            => sum(exposed_communication_ns);
        copies_ns: i64, "ns", "only copies or sets run" => sum(copies_ns);
        idle_ns: i64, "ns", "nothing runs" => sum(idle_ns);
        compute_pct: Option<f64>, "%", "of the windows", "compute" => percent(compute_ns, dur_ns);
        fused_pct: Option<f64>, "%", "of the windows", "fused" => percent(fused_ns, dur_ns);
        exposed_communication_pct: Option<f64>, "%", "of the windows", "waiting or transfer"
            => percent(exposed_communication_ns, dur_ns);
        copies_pct: Option<f64>, "%", "of the windows", "copies" => percent(copies_ns, dur_ns);
        idle_pct: Option<f64>, "%", "of the windows", "idle" => percent(idle_ns, dur_ns);
    }
}

const BY_DEVICE: Rollup = Rollup::of_windows(Breakdowns::SPEC, DeviceBreakdowns::SPEC);

const VIEW: ViewSpec = ViewSpec {
    title: "Where the time went",
    columns: &[
        "rank",
        "device?",
        "dur_ns",
        "compute_pct",
        "fused_pct?",
        "exposed_communication_pct",
        "copies_pct",
        "idle_pct",
    ],
    by: "compute_pct ascending",
    fold: Fold::Worst,
    per: "window_count",
    bar: &[
        ('#', "compute_pct"),
        ('+', "fused_pct"),
        ('=', "exposed_communication_pct"),
        ('-', "copies_pct"),
        ('.', "idle_pct"),
    ],
    notes: &[
        Note::Made(windows),
        Note::If("all_partial", "all steps are partial and count nevertheless"),
        Note::If("fused_ns", "fused: exchange and product in one kernel"),
    ],
    ..ViewSpec::of(DeviceBreakdowns::SPEC)
};

/// What a window is.
fn windows(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let mut first = None;
    scope.each::<DeviceBreakdowns>(|r| {
        first.get_or_insert((r.is_steps, r.window_count));
    })?;
    Ok(first.map(|(is_steps, count)| match is_steps {
        true => format!("window: mean over {}, partial ones left out", counted(count, "step")),
        false => "window: the recorded span of each device (no steps were found)".to_string(),
    }))
}

pub struct Breakdown;

impl Analysis for Breakdown {
    fn about(&self) -> About {
        About {
            stem: "breakdown",
            title: "compute, waiting or transfer, copies, idle; per rank and step",
            explain: include_str!("page.md"),
            tables: &[Breakdowns::SPEC, DeviceBreakdowns::SPEC],
            views: &[VIEW],
            rollups: &[BY_DEVICE],
            needs: &[Capability::DeviceTime, Capability::Idle, Capability::Steps],
            tells_overlap: true,
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, _: &mut RowEmitter) -> Partial {
        let mut table = Breakdowns::default();
        for (work, windows) in WindowAccounts::of(trace).by_device(trace, &options.model) {
            for w in windows {
                let (s, dur) = (w.shares, w.len());
                let pct = |ns| percent(ns, dur);
                table.push(BreakdownRow {
                    rank: trace.rank,
                    device: work.device,
                    scope: w.scope.name(),
                    step: w.step,
                    step_label: w.label,
                    is_partial: w.is_partial,
                    ts_ns: w.start(),
                    dur_ns: dur,
                    basis: if work.is_gpu { "gpu" } else { "cpu" },
                    compute_ns: s.compute(),
                    exposed_communication_ns: s.exposed_communication(),
                    copies_ns: s.copies(),
                    idle_ns: w.idle(),
                    communication_ns: s.communication(),
                    memory_ns: s.memory(),
                    busy_ns: s.busy(),
                    compute_pct: pct(s.compute()),
                    exposed_communication_pct: pct(s.exposed_communication()),
                    copies_pct: pct(s.copies()),
                    idle_pct: pct(w.idle()),
                    communication_pct: pct(s.communication()),
                    memory_pct: pct(s.memory()),
                    busy_pct: pct(s.busy()),
                    fused_ns: s.fused(),
                    beside_fused_ns: s.beside_fused(),
                    exposed_upper_ns: s.exposed_communication() + s.fused(),
                    fused_pct: pct(s.fused()),
                });
            }
        }
        let reason = trace.without_devices();
        Partial { rank: trace.rank, tables: vec![table.finish()], reason }
    }
}
