//! Turns what is known of all ranks into causes: each nanosecond of lost time has one owner, a cause says
//! what to repair, and what its repair would give. The only place that advises.
//!
//! What is particular about a cause stands in its file of `causes`; the other files do what causes of a
//! family share.

mod account;
mod awaited_copies;
mod bubbles;
mod callbacks;
mod cause;
mod cause_words;
mod causes;
mod certainty;
mod clocks;
mod collected;
mod communication;
mod compilers;
mod compute;
pub mod condition;
mod contention;
mod context;
mod copy_times;
mod diagnose;
mod evidence;
mod exposed_lane;
mod first_steps;
mod gain;
pub mod grouping;
mod host;
mod host_operators;
mod host_ranges;
mod host_time;
mod host_waits;
mod kernel_facts;
mod kernel_mix;
mod kernel_repairs;
mod late;
mod late_clocks;
mod late_ranks;
mod lost;
mod lost_causes;
mod lost_words;
mod memory;
mod mix_causes;
mod mix_words;
mod named_code;
mod only_copies;
mod open_books;
mod owners;
mod paced;
mod page;
mod paused;
mod pauses;
mod piece;
mod recorded_time;
pub mod registry;
mod repair;
mod role_gaps;
pub mod role_tables;
mod rule;
mod sampled_evidence;
mod sampled_metrics;
mod serving;
mod set_up;
mod tables;
mod threat;
pub mod timeline;
mod transfer;
mod trust;
mod verdict;
mod views;

pub use causes::CauseKind;
pub use certainty::CauseCertainty;
pub use tables::{FindingEvidence, FindingNames, FindingRow, Findings, TimeAccount, VerdictTable};

use crate::clocks::{DeviceClocks, StepClocks};
use crate::compute::compute_kernels;
use crate::contention::KernelsBeside;
use crate::copy_times::CopyTimes;
use crate::diagnose::diagnose;
use crate::host::HostSide;
use crate::host_operators::HostOperators;
use crate::host_time::LostHostTime;
use crate::kernel_facts::KernelFacts;
use crate::kernel_mix::KernelMix;
use crate::kernel_repairs::KernelRepairs;
use crate::lost::{LostTime, ways};
use crate::pauses::HostPauses;
use crate::recorded_time::RecordedTime;
use crate::role_tables::{RoleLoops, RolePhaseTable, RolesOverPeriods};
use crate::sampled_metrics::{LinkSamples, SampledMeans};
use crate::threat::MemoryThreats;
use crate::timeline::{OwnedIdle, TimelineTable, TimelineWaits, waits};
use crate::views::{TimeByOwner, TimeByRanks};
use hta_analysis::api::{About, AcrossOption, Analysis, Options, Output, Partial, RowEmitter};
use hta_job::Job;
use hta_job::recording::capability::Capability;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;

/// Largest number of devices of a rank whose idle time is divided, because what the host did is looked up for
/// each. No machine has more, but a file may; their lost time is not explained.
const MOST_DEVICES: usize = 64;

pub struct DiagnosisOf;

impl Analysis for DiagnosisOf {
    fn about(&self) -> About {
        About {
            stem: "diagnosis",
            title: "what costs time, what fixing it saves, and how sure that is",
            explain: page::page(),
            tables: &[
                Findings::SPEC,
                FindingEvidence::SPEC,
                VerdictTable::SPEC,
                TimeAccount::SPEC,
                RecordedTime::SPEC,
                TimelineTable::SPEC,
                TimelineWaits::SPEC,
                FindingNames::SPEC,
                KernelRepairs::SPEC,
                SampledMeans::SPEC,
                HostPauses::SPEC,
                RolePhaseTable::SPEC,
                RoleLoops::SPEC,
                RolesOverPeriods::SPEC,
                TimeByRanks::SPEC,
                TimeByOwner::SPEC,
            ],
            views: &views::VIEWS,
            rollups: &role_tables::ROLLUPS,
            kept_tables: &[
                LostTime::SPEC,
                LostHostTime::SPEC,
                CopyTimes::SPEC,
                KernelMix::SPEC,
                MemoryThreats::SPEC,
                HostOperators::SPEC,
                DeviceClocks::SPEC,
                StepClocks::SPEC,
                LinkSamples::SPEC,
                KernelsBeside::SPEC,
            ],
            takes: &AcrossOption::ALL,
            is_long: true,
            joins_ranks: true,
            replays: true,
            needs: &[Capability::DeviceTime, Capability::Idle],
            tells_overlap: true,
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let ways = ways(trace);
        let busy = Union::new(trace.devices.iter().flat_map(|w| w.timeline.busy().spans().to_vec()));
        let host = HostSide::new(trace, &busy, &ways);
        let (mut lost, mut times, mut carried) =
            (LostTime::default(), LostHostTime::default(), CopyTimes::default());
        let (mut mix, mut repairs) = (KernelMix::default(), KernelRepairs::default());
        let facts = KernelFacts::new(trace, options);
        let (mut clocks, mut step_clocks) = (DeviceClocks::default(), StepClocks::default());
        let (mut means, mut links) = (SampledMeans::default(), LinkSamples::default());
        let mut timeline = TimelineTable::default();
        let mut recorded = RecordedTime::default();
        let mut beside = KernelsBeside::default();
        for work in &trace.devices {
            let windows = trace.account_windows(work, &options.model);
            let link = trace.device_properties(work.device).and_then(|d| options.peaks.host_gb_per_s(d));
            let cut = (windows.as_slice(), options.kernel_wait_max, link);
            if trace.devices.len() <= MOST_DEVICES {
                let idle = lost::push(trace, work, &host, &ways, cut, (&mut lost, &mut times, &mut carried));
                if options.model.steps.is_none() {
                    recorded_time::push(&mut recorded, trace, work, &idle);
                }
                if options.wants(TimelineTable::SPEC) {
                    timeline::push(
                        &mut timeline,
                        trace,
                        work,
                        &OwnedIdle { idle: &idle, ways: &ways },
                        &windows,
                    );
                }
            }
            if work.is_gpu {
                let kernels = compute_kernels(trace, work);
                contention::push(&mut beside, trace, work, &kernels, &windows);
                kernel_mix::push(&mut mix, trace, work, &kernels, &windows);
                kernel_repairs::push(&mut repairs, &facts, work, &kernels, &windows);
                clocks::push((&mut clocks, &mut step_clocks), trace, work, &kernels, &windows);
                sampled_metrics::push((&mut means, &mut links), &facts, work, &kernels);
            }
        }
        if options.wants(TimelineTable::SPEC) {
            give(timeline.finish());
        }
        let mut threats = MemoryThreats::default();
        threat::push(&mut threats, trace, options);
        let operators = host_operators::of_rank(trace);
        let made = [
            lost.finish(),
            times.finish(),
            carried.finish(),
            mix.finish(),
            repairs.finish(),
            threats.finish(),
            operators,
        ];
        let of_counters =
            [clocks.finish(), step_clocks.finish(), means.finish(), links.finish(), beside.finish()];
        let tables = made
            .into_iter()
            .chain([pauses::table(trace, &host.pauses), recorded.finish()])
            .chain(of_counters)
            .collect();
        let reason = trace.without_devices();
        Partial { rank: trace.rank, tables, reason }
    }

    fn reduce(&self, partials: &[Partial], job: &Job, options: &Options) -> Output {
        let found = diagnose(job, partials, options);
        let outside = recorded_time::outside(partials, options, &found.trust);
        let told = verdict::verdict(&found, outside);
        let (findings, evidence) = tables::finding_tables(&found, &told);
        let names = tables::finding_names(&found, job);
        let (lines, account) = (tables::lines(&told), tables::time_account(&found, job));
        let mut tables = vec![findings, evidence, names, lines, account, waits(job, &found.account)];
        let (by_ranks, mut notes) = views::by_rank(&found, job);
        let (by_owner, note) = views::by_owner(&found);
        tables.extend(role_tables::role_tables(job).into_iter().chain([by_ranks, by_owner]));
        notes.extend(role_tables::note(job).into_iter().chain(note));
        Output { tables, notes, verdict: Some(told), ..Output::default() }
    }
}
