//! Overlap: how much communication is hidden under compute.

use crate::api::{About, Align, Analysis, Options, Output, Partial, RowEmitter, View};
use crate::facts::collectives::collectives;
use crate::facts::shared_streams::{CANNOT_OVERLAP_PCT, communication_beside_compute};
use crate::facts::windows::WindowAccounts;
use crate::job::Job;
use crate::population::{groups, reasons, several_devices};
use crate::recording::capability::Capability;
use crate::recording::rules::{fused_share, hides_overlap};
use crate::windowed;
use crate::worst_first::{MergedGroups, WorstFirst};
use hta_base::table;
use hta_base::table::schema::{Table, Text};
use hta_base::units::{fmt_ns, fmt_pct, percent, ratio};
use hta_base::wording::counts::bar;
use hta_trace::rank_trace::RankTrace;
use hta_trace::timeline::WorkClass;

table! {
    /// How much communication runs under compute; overlap + beside_fused + exposed = communication.
    pub(crate) struct Overlaps, OverlapRow = "overlap" by "rank, device, scope, step" {
        rank; device; scope; step; step_label; is_partial; ts_ns; dur_ns;
        communication_ns: i64, "ns", "|K|";
        compute_ns: i64, "ns", "|C|";
        overlap_ns: i64, "ns", "|K n C|";
        exposed_ns: i64, "ns", "|K \\ (C u F)|";
        overlap_ratio: Option<f64>, "", "overlap / communication";
        beside_compute_ns: i64, "ns",
            "part of the communication on the stream of the compute, where nothing can overlap it";
        fused_ns: i64, "ns", "|F \\ C|: fused kernels (exchange and product in one) without compute";
        beside_fused_ns: i64, "ns", "|K n F \\ C|";
        exposed_upper_ns: i64, "ns", "exposed + fused: the most that can be exposed";
    }
}

table! {
    /// One row per communication activity. Where communication overlaps itself these rows add up to more than
    /// `overlap`.
    pub(crate) struct OverlapKernels, OverlapKernelRow = "overlap_kernels"
        by "rank, exposed_ns descending, ts_ns, event_id" {
        rank; device; stream;
        event_id: u32, "", "event, as in `events`";
        step: Option<u32>, "", "index of the step of its launch";
        name: Text, "", "name of the activity";
        kind: Text, "", "kind of collective";
        process_group: Option<Text>, "", "process group, where recorded";
        size_bytes: Option<i64>, "bytes", "message size, where recorded";
        ts_ns: i64, "ns", "start";
        dur_ns: i64, "ns", "length";
        covered_ns: i64, "ns", "time in which compute runs on the device";
        exposed_ns: i64, "ns", "time in which no compute runs on the device";
    }
}

windowed!(Overlaps);

pub(crate) struct Overlap;

impl Analysis for Overlap {
    fn about(&self) -> About {
        About {
            stem: "overlap",
            title: "communication hidden under compute, and what of it no compute hides",
            explain: include_str!("page.md"),
            tables: &[Overlaps::SPEC, OverlapKernels::SPEC],
            needs: &[Capability::DeviceTime],
            tells_overlap: true,
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let mut table = Overlaps::default();
        let mut found = false;
        for (work, windows) in WindowAccounts::of(trace).by_device(trace, &options.model) {
            let has = |class| work.timeline.has(class);
            if !has(WorkClass::Communication) && !has(WorkClass::Fused) {
                continue;
            }
            found = true;
            let beside = communication_beside_compute(trace, work);
            for w in windows {
                let s = w.shares;
                table.push(OverlapRow {
                    rank: trace.rank,
                    device: work.device,
                    scope: w.scope.name(),
                    step: w.step,
                    step_label: w.label,
                    is_partial: w.is_partial,
                    ts_ns: w.start(),
                    dur_ns: w.len(),
                    communication_ns: s.communication(),
                    compute_ns: s.compute(),
                    overlap_ns: s.overlap(),
                    exposed_ns: s.exposed_communication(),
                    // Of exchanges with kernels of their own; not where most of the exchange may be fused.
                    overlap_ratio: ratio(s.overlap(), s.communication())
                        .filter(|_| !hides_overlap(s.fused(), s.busy(), s.communication())),
                    beside_compute_ns: w.parts().iter().map(|part| beside.len_in(*part)).sum(),
                    fused_ns: s.fused(),
                    beside_fused_ns: s.beside_fused(),
                    exposed_upper_ns: s.exposed_communication() + s.fused(),
                });
            }
        }
        let reason = (!found).then_some("no communication");
        kernels(trace, give);
        Partial { rank: trace.rank, tables: vec![table.finish()], reason }
    }

    fn reduce(&self, partials: &[Partial], _: &Job, options: &Options) -> Output {
        let groups = groups::<Overlaps>(partials);
        let several = several_devices(&groups);
        let mut view = View {
            title: "Communication hidden under compute".to_string(),
            columns: vec![
                ("ranks", Align::Left),
                ("communication", Align::Right),
                ("overlapped", Align::Right),
                ("exposed", Align::Right),
                ("overlap", Align::Right),
                ("#covered =exposed", Align::Left),
            ],
            rows: Vec::new(),
            notes: reasons(partials),
        };
        let (beside, all) = groups.iter().fold((0, 0), |(beside, all), g| {
            (beside + g.sum(|t| t.beside_compute_ns), all + g.sum(|t| t.communication_ns))
        });
        if percent(beside, all).is_some_and(|pct| pct >= CANNOT_OVERLAP_PCT) {
            view.notes.push(
                "communication runs on the stream of the compute, one by one: it cannot overlap until it has \
                 a stream of its own"
                    .to_string(),
            );
        }
        if groups.iter().any(|g| fused_share(g.sum(|t| t.fused_ns), g.sum(|t| t.dur_ns)).is_some()) {
            view.notes.push(
                "of exchanges with kernels of their own: what is hidden or exposed inside fused kernels \
                 cannot be told; no overlap where these run longer"
                    .to_string(),
            );
        }
        let shown = WorstFirst::new(&groups, options.top, |g| g.mean(|t| t.exposed_ns));
        let cells = |name: String, g: MergedGroups<Overlaps>| {
            let all = g.sum(|t| t.communication_ns);
            let is_hidden = hides_overlap(g.sum(|t| t.fused_ns), g.sum(|t| t.dur_ns), all);
            let share = percent(g.sum(|t| t.overlap_ns), all).filter(|_| !is_hidden);
            vec![
                name,
                fmt_ns(g.mean(|t| t.communication_ns)),
                fmt_ns(g.mean(|t| t.overlap_ns)),
                fmt_ns(g.mean(|t| t.exposed_ns)),
                fmt_pct(share),
                bar(&[(share, '#'), (share.map(|s| 100.0 - s), '=')]),
            ]
        };
        let shown = shown.rows(|g| g.in_column(several), |name, g| cells(name, MergedGroups(g)));
        view.notes.extend(shown.others_note("rank", "means", "with no more exposed"));
        view.rows = shown.rows;
        Output {
            tables: partials.iter().filter_map(|p| p.table(Overlaps::SPEC).cloned()).collect(),
            // No observation here: the breakdown reports exposed communication, with its share of the step.
            observations: Vec::new(),
            views: vec![view],
            ..Output::default()
        }
    }
}

fn kernels(trace: &RankTrace, give: &mut RowEmitter) {
    let mut rows = Vec::new();
    for work in &trace.devices {
        let compute = work.timeline.when(WorkClass::Compute);
        for &i in &work.activities {
            let a = &trace.activities[i as usize];
            if a.work == WorkClass::Communication {
                let covered = compute.len_in(a.span);
                rows.push((a, covered, a.span.len() - covered));
            }
        }
    }
    rows.sort_by_key(|(a, _, exposed)| (std::cmp::Reverse(*exposed), a.span.start, a.row));
    let calls = collectives(trace);
    let mut table = OverlapKernels::default();
    for (a, covered, exposed) in rows {
        let call = calls.of_event(a.row);
        let group =
            call.and_then(|c| calls.groups.get(c.shape.group as usize)).and_then(|g| g.name.as_deref());
        table.push(OverlapKernelRow {
            rank: trace.rank,
            device: a.device(),
            stream: a.stream(),
            event_id: a.row,
            step: a.step(),
            name: trace.text(a.name),
            kind: calls.kind_of(a.row).name(),
            process_group: group,
            size_bytes: call.and_then(|c| c.shape.bytes),
            ts_ns: a.span.start,
            dur_ns: a.span.len(),
            covered_ns: covered,
            exposed_ns: exposed,
        });
        table.give_piece(give);
    }
    give(table.finish());
}
