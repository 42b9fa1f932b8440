//! Temporal breakdown: what each device was doing at each instant.

use crate::api::{About, Analysis, Certainty, Observation, Options, Output, Partial, RowEmitter};
use crate::facts::windows::WindowAccounts;
use crate::job::Job;
use crate::population::{MergedGroups, SelectedRows, groups, several_devices};
use crate::recording::capability::Capability;
use crate::recording::rules::fused_share;
use crate::windowed;
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::Text;
use hta_base::table::view::{Fold, Note, TableError, ViewScope, ViewSpec};
use hta_base::units::{fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::{capital, counted};
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeSet;

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

windowed!(Breakdowns);

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

pub(crate) struct Breakdown;

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

    fn reduce(&self, partials: &[Partial], _: &Job, _: &Options) -> Output {
        let groups = groups::<Breakdowns>(partials);
        let all: Vec<_> = groups.iter().collect();
        let observations = exposed_communication(&all, several_devices(&groups)).into_iter().collect();
        Output { observations, ..Output::default() }
    }
}

/// The observation on exposed communication. Of several ranks it names none: who communicates longest may
/// only wait for another one.
fn exposed_communication(groups: &[&SelectedRows<Breakdowns>], several: bool) -> Option<Observation> {
    let (first, all) = (groups.first()?, MergedGroups(groups));
    let cost = all.mean(|t| t.exposed_communication_ns);
    let share = all.percent(|t| t.exposed_communication_ns);
    let is_bound = fused_share(all.sum(|t| t.fused_ns), all.sum(|t| t.busy_ns)).is_some();
    let most = if is_bound { all.percent(|t| t.exposed_upper_ns) } else { share };
    if most.is_none_or(|s| s < 1.0) || cost == 0 && !is_bound {
        return None;
    }
    let overlapped = percent(
        all.sum(|t| t.communication_ns)
            - all.sum(|t| t.exposed_communication_ns)
            - all.sum(|t| t.beside_fused_ns),
        all.sum(|t| t.communication_ns),
    );
    let hidden = match is_bound {
        true => format!(
            "; with its kernels that exchange and multiply at most {} ({})",
            fmt_ns(all.mean(|t| t.exposed_upper_ns)),
            fmt_pct(all.percent(|t| t.exposed_upper_ns))
        ),
        false => format!("; {} of its communication is overlapped", fmt_pct(overlapped)),
    };
    let of_each = || groups.iter().map(|g| g.mean(|t| t.exposed_communication_ns));
    let (who, range) = match (groups, of_each().min().zip(of_each().max())) {
        ([_, _, ..], Some((least, most))) => {
            let noun = if several { "device" } else { "rank" };
            (format!("On average a {noun}"), format!(", from {} to {}", fmt_ns(least), fmt_ns(most)))
        }
        _ => (capital(&first.who(several)), String::new()),
    };
    let mut sentence = format!(
        "{who} spends {}{} {} ({} of {}{range}) in communication that no compute covers{hidden}",
        if is_bound { "at least " } else { "" },
        fmt_ns(cost),
        first.per(),
        fmt_pct(share),
        fmt_ns(all.mean(|t| t.dur_ns)),
    );
    let step = if groups.len() == 1 { first.worst_step(|t| t.exposed_communication_ns) } else { None };
    if let Some((step, ns)) = &step {
        sentence.push_str(&format!("; worst in step {step}: {}", fmt_ns(*ns)));
    }
    Some(Observation {
        analysis: "breakdown",
        ranks: groups.iter().map(|g| g.rank).collect::<BTreeSet<u32>>().into_iter().collect(),
        steps: step.into_iter().map(|s| s.0).collect(),
        cost_ns_per_step: cost,
        share_of_step: share.map(|s| s / 100.0),
        certainty: Certainty::Measured,
        sentence,
        table: Breakdowns::SPEC.name,
    })
}
