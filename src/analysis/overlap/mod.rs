//! Overlap: how much communication is hidden under compute.

use crate::api::{About, Analysis, Options, Partial, RowEmitter};
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::{Table, Text};
use hta_base::table::view::{Fold, Note, TableError, ViewScope, ViewSpec};
use hta_base::units::{percent, ratio};
use hta_facts::collectives::collectives;
use hta_facts::shared_streams::{CANNOT_OVERLAP_PCT, communication_beside_compute};
use hta_facts::windows::WindowAccounts;
use hta_job::recording::capability::Capability;
use hta_job::recording::rules::{fused_share, hides_overlap};
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

table! {
    /// How much communication of each device runs under compute, in the windows that averages are based on:
    /// full steps, or else the span.
    pub(crate) struct DeviceOverlaps, DeviceOverlapRow = "overlap_by_device" by "rank, device" {
        rank; device;
        is_steps: bool, "", "the windows are steps" => are_steps;
        window_count: u64, "", "windows" => rows;
        dur_ns: i64, "ns", "sum of their lengths" => sum(dur_ns);
        communication_ns: i64, "ns", "communication runs" => sum(communication_ns);
        overlap_ns: i64, "ns", "part of it under compute", "overlapped" => sum(overlap_ns);
        exposed_ns: i64, "ns", "part of it under neither compute nor fused kernels" => sum(exposed_ns);
        beside_compute_ns: i64, "ns", "part of it on the stream of the compute" => sum(beside_compute_ns);
        fused_ns: i64, "ns", "fused kernels without compute" => sum(fused_ns);
        overlap_ratio: Option<f64>, "share",
            "overlap / communication, in the windows whose overlap is known", "overlap"
            => mean(overlap_ratio, communication_ns);
        exposed_ratio: Option<f64>, "share", "exposed / communication", "exposed"
            => ratio(exposed_ns, communication_ns);
    }
}

const BY_DEVICE: Rollup = Rollup::of_windows(Overlaps::SPEC, DeviceOverlaps::SPEC);

const VIEW: ViewSpec = ViewSpec {
    title: "Communication hidden under compute",
    columns: &["rank", "device?", "communication_ns", "overlap_ns", "exposed_ns", "overlap_ratio"],
    by: "exposed_ns",
    fold: Fold::Worst,
    per: "window_count",
    bar: &[('#', "overlap_ratio"), ('=', "exposed_ratio")],
    notes: &[Note::Made(one_by_one), Note::Made(inside_fused)],
    ..ViewSpec::of(DeviceOverlaps::SPEC)
};

/// That nothing can overlap on one stream.
fn one_by_one(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let (mut beside, mut all) = (0, 0);
    scope.each::<DeviceOverlaps>(|r| {
        beside += r.beside_compute_ns;
        all += r.communication_ns;
    })?;
    let cannot = percent(beside, all).is_some_and(|pct| pct >= CANNOT_OVERLAP_PCT);
    Ok(cannot.then(|| {
        "communication runs on the stream of the compute, one by one: it cannot overlap until it has a \
         stream of its own"
            .to_string()
    }))
}

/// What fused kernels hide.
fn inside_fused(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let mut has_fused = false;
    scope.each::<DeviceOverlaps>(|r| has_fused |= fused_share(r.fused_ns, r.dur_ns).is_some())?;
    Ok(has_fused.then(|| {
        "of exchanges with kernels of their own: what is hidden or exposed inside fused kernels cannot be \
         told; no overlap where these run longer"
            .to_string()
    }))
}

pub struct Overlap;

impl Analysis for Overlap {
    fn about(&self) -> About {
        About {
            stem: "overlap",
            title: "communication hidden under compute, and what of it no compute hides",
            explain: include_str!("page.md"),
            tables: &[Overlaps::SPEC, DeviceOverlaps::SPEC, OverlapKernels::SPEC],
            views: &[VIEW],
            rollups: &[BY_DEVICE],
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
