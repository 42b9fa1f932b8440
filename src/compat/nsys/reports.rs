//! The reports, each an analysis of its own.

use crate::nsys::collect;
use crate::nsys::events::{self, NsysEvents};
use crate::nsys::listing;
use crate::nsys::samples::{Collector, Samples};
use crate::nsys::sums::{self, Summary};
use crate::nsys::usage;
use hta_analysis::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use hta_analysis::printed::View;
use hta_base::table::schema::Batch;
use hta_job::Job;
use hta_trace::rank_trace::RankTrace;

/// How a report is made.
enum ReportMethod {
    /// Ranks leave the values of each row, and the rows of all ranks are summed.
    Sums(fn(&RankTrace, &mut Collector), Summary),
    /// Ranks give a row for each event.
    Events(fn(&RankTrace, &mut events::Emit), fn(&str, &[Batch]) -> View),
}

/// One report of `nsys stats` or `nsys analyze`.
pub struct Report {
    pub name: &'static str,
    /// One line on what it lists.
    pub about: &'static str,
    method: ReportMethod,
}

const fn sums(
    name: &'static str,
    about: &'static str,
    map: fn(&RankTrace, &mut Collector),
    summary: Summary,
) -> Report {
    Report { name, about, method: ReportMethod::Sums(map, summary) }
}

const fn listed(
    name: &'static str,
    about: &'static str,
    map: fn(&RankTrace, &mut events::Emit),
    view: fn(&str, &[Batch]) -> View,
) -> Report {
    Report { name, about, method: ReportMethod::Events(map, view) }
}

/// All reports: those of `nsys stats`, then the rules of `nsys analyze`.
pub static REPORTS: [Report; 20] = [
    sums("cuda_api_sum", "calls of the CUDA API by name", collect::api, sums::API),
    listed("cuda_api_trace", "every call of the CUDA API", events::api_calls, listing::api_trace),
    sums("cuda_gpu_kern_sum", "kernels by name", collect::kernels, sums::KERNELS),
    sums(
        "cuda_gpu_kern_gb_sum",
        "kernels by name, grid and block",
        collect::kernels_by_grid,
        sums::KERNELS_BY_GRID,
    ),
    sums(
        "cuda_gpu_mem_time_sum",
        "time of copies and sets by operation",
        collect::memory_times,
        sums::MEMORY_TIMES,
    ),
    sums(
        "cuda_gpu_mem_size_sum",
        "bytes of copies and sets by operation",
        collect::memory_sizes,
        sums::MEMORY_SIZES,
    ),
    sums("cuda_gpu_sum", "kernels, copies and sets", collect::gpu, sums::OPERATIONS),
    sums("cuda_api_gpu_sum", "API calls, kernels, copies and sets", collect::api_and_gpu, sums::OPERATIONS),
    listed("cuda_gpu_trace", "every kernel, copy and set", events::gpu_events, listing::gpu_trace),
    sums(
        "cuda_kern_exec_sum",
        "kernels with their calls: call, queue, kernel, total",
        collect::executions,
        sums::EXECUTIONS,
    ),
    sums("nvtx_sum", "ranges by text", collect::range_times, sums::RANGES),
    listed(
        "nvtx_pushpop_trace",
        "every range, with its place in the tree",
        events::nested_ranges,
        listing::nested_ranges,
    ),
    sums(
        "nvtx_gpu_proj_sum",
        "ranges by text, as long as their work on the GPU",
        collect::projections,
        sums::PROJECTIONS,
    ),
    sums(
        "nvtx_kern_sum",
        "kernels by the ranges around their launch",
        collect::range_kernels,
        sums::RANGE_KERNELS,
    ),
    listed(
        "cuda_memcpy_async",
        "asynchronous copies of pageable memory, which block",
        events::async_copies,
        listing::copies,
    ),
    listed("cuda_memcpy_sync", "copies by calls that block the host", events::sync_copies, listing::copies),
    listed("cuda_memset_sync", "sets by calls that block the host", events::sync_sets, listing::sets),
    listed("cuda_api_sync", "calls that wait for the device", events::waiting_calls, listing::waits),
    listed("gpu_gaps", "idle times of at least 100 us and 1 % of a step", usage::gaps, listing::gaps),
    listed(
        "gpu_time_util",
        "thirtieths in which a device is busy for less than half",
        usage::little_use,
        listing::little_use,
    ),
];

/// The report of a name.
pub fn find(name: &str) -> Option<&'static Report> {
    REPORTS.iter().find(|r| r.name == name)
}

impl Report {
    /// The printed rows of a report with a row for each event; `None` of a sum.
    pub fn listing(&self, batches: &[Batch]) -> Option<View> {
        match self.method {
            ReportMethod::Sums(..) => None,
            ReportMethod::Events(_, view) => Some(view(self.about, batches)),
        }
    }
}

impl Analysis for Report {
    fn about(&self) -> About {
        About {
            stem: "nsys-stats",
            title: self.about,
            explain: crate::nsys::PAGE,
            tables: match self.method {
                ReportMethod::Sums(..) => &[Samples::SPEC],
                ReportMethod::Events(..) => &[NsysEvents::SPEC],
            },
            definitions: Some("nsys"),
            takes_steps: false,
            ..About::DEFAULT
        }
    }

    fn reads_event_args(&self, _: &Options) -> bool {
        true
    }

    fn map(&self, trace: &RankTrace, _: &Options, give: &mut RowEmitter) -> Partial {
        let tables = match self.method {
            ReportMethod::Sums(collect, _) => {
                let mut values = Collector::default();
                collect(trace, &mut values);
                vec![values.finish(trace)]
            }
            ReportMethod::Events(map, _) => {
                map(trace, give);
                Vec::new()
            }
        };
        Partial { rank: trace.rank, tables, reason: None }
    }

    fn reduce(&self, partials: &[Partial], _: &Job, _: &Options) -> Output {
        match self.method {
            ReportMethod::Sums(_, summary) => {
                Output { views: vec![summary.view(self.about, partials)], ..Output::default() }
            }
            ReportMethod::Events(..) => Output::default(),
        }
    }
}
