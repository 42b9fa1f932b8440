//! Temporal breakdown: what each device was doing at each instant.

use crate::api::{
    About, Align, Analysis, Certainty, Observation, Options, Output, Partial, RowEmitter, View,
};
use crate::facts::windows::WindowAccounts;
use crate::job::Job;
use crate::population::{SelectedRows, groups, reasons, several_devices};
use crate::recording::capability::Capability;
use crate::recording::rules::fused_share;
use crate::windowed;
use crate::worst_first::{MergedGroups, WorstFirst};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::{fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::{bar, capital, plural};
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

pub(crate) struct Breakdown;

impl Analysis for Breakdown {
    fn about(&self) -> About {
        About {
            stem: "breakdown",
            title: "compute, waiting or transfer, copies, idle; per rank and step",
            explain: include_str!("page.md"),
            tables: &[Breakdowns::SPEC],
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

    fn reduce(&self, partials: &[Partial], _: &Job, options: &Options) -> Output {
        let groups = groups::<Breakdowns>(partials);
        let several = several_devices(&groups);
        let has_fused = groups.iter().any(|g| g.sum(|t| t.fused_ns) > 0);
        let fused = has_fused.then_some(("fused", Align::Right));
        let heads = [("ranks", Align::Left), ("window", Align::Right), ("compute", Align::Right)];
        let rest = [
            ("waiting or transfer", Align::Right),
            ("copies", Align::Right),
            ("idle", Align::Right),
            ("picture", Align::Left),
        ];
        let mut view = View {
            title: "Where the time went".to_string(),
            columns: heads.into_iter().chain(fused).chain(rest).collect(),
            rows: Vec::new(),
            notes: reasons(partials),
        };
        let shown = WorstFirst::new(&groups, options.top, lost);
        let cells = |name: String, g: MergedGroups<Breakdowns>| {
            let parts = [
                (g.percent(|t| t.compute_ns), '#'),
                (g.percent(|t| t.fused_ns), '+'),
                (g.percent(|t| t.exposed_communication_ns), '='),
                (g.percent(|t| t.copies_ns), '-'),
                (g.percent(|t| t.idle_ns), '.'),
            ];
            let mut row = vec![name, fmt_ns(g.mean(|t| t.dur_ns))];
            row.extend(parts.iter().filter(|p| has_fused || p.1 != '+').map(|p| fmt_pct(p.0)));
            row.push(bar(&parts));
            row
        };
        let shown = shown.rows(|g| g.in_column(several), |name, g| cells(name, MergedGroups(g)));
        view.notes.extend(shown.others_note("rank", "means", "that lose no more"));
        view.rows = shown.rows;
        if let Some(g) = groups.first() {
            view.notes.push(if g.is_steps {
                format!("window: mean over {}, partial ones left out", plural(g.rows.len(), "step"))
            } else {
                "window: the recorded span of each device (no steps were found)".to_string()
            });
            let fused = if has_fused { ", + fused (exchange and product in one kernel)" } else { "" };
            view.notes.push(format!("picture: # compute{fused}, = waiting or transfer, - copies, . idle"));
            if g.all_partial {
                view.notes.push("all steps are partial and count nevertheless".to_string());
            }
        }
        let all: Vec<_> = groups.iter().collect();
        let observations = exposed_communication(&all, several).into_iter().collect();
        Output {
            tables: partials.iter().filter_map(|p| p.table(Breakdowns::SPEC).cloned()).collect(),
            observations,
            views: vec![view],
            ..Output::default()
        }
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

fn lost(g: &SelectedRows<Breakdowns>) -> i64 {
    g.mean(|t| t.idle_ns) + g.mean(|t| t.exposed_communication_ns) + g.mean(|t| t.copies_ns)
}
