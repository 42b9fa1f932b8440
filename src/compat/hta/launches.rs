//! HTA's `get_cuda_kernel_launch_stats`.
//!
//! Host rows are joined with GPU rows on the correlation id, only for the ids of calls named as in `NAMES`.
//! AMD, driver and graph launches are therefore missing, as in HTA. Times are whole microseconds. A delay
//! below 0 is set to 0.

use crate::hta::NAME;
use crate::hta::loader::{HtaRow, load_all};
use hashbrown::{HashMap, HashSet};
use hta_analysis::api::{About, Analysis, Options, Partial, RowEmitter};
use hta_analysis::launches::{DELAY_OUTLIER, RUNTIME_OUTLIER};
use hta_base::table;
use hta_base::table::schema::Table;
use hta_base::table::view::ViewSpec;
use hta_base::units::Ns;
use hta_trace::rank_trace::RankTrace;

table! {
    /// HTA's `get_cuda_kernel_launch_stats`: one row per launch and GPU row.
    pub(crate) struct HtaLaunchStats, HtaLaunchStatsRow = "compat_hta_cuda_kernel_launch_stats"
        by "rank, correlation" {
        rank: u32, "", "rank";
        correlation: i64, "", "correlation id";
        cpu_duration: i64, "us", "length of the call";
        gpu_duration: i64, "us", "length of the GPU row";
        launch_delay: i64, "us", "from the end of the call to the start of the GPU row, at least 0";
    }
}

table! {
    /// Number of launches in each of HTA's three plots of outliers.
    pub(crate) struct LaunchOutliers, LaunchOutliersRow = "compat_hta_cuda_kernel_launch_outliers" by "rank" {
        rank: u32, "", "rank";
        launches: u64, "", "number of rows of compat_hta_cuda_kernel_launch_stats";
        short_gpu_kernels: u64, "", "launches whose GPU row is shorter than the call";
        runtime_outliers: u64, "", "calls longer than --runtime-outlier-us";
        launch_delay_outliers: u64, "", "delays above --delay-outlier-us";
    }
}

const NAMES: [&str; 5] = [
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
    "runFunction - job_prep_and_submit_for_execution",
];

pub(crate) struct HtaLaunches;

const VIEWS: [ViewSpec; 1] = [ViewSpec::whole(LaunchOutliers::SPEC)];

impl Analysis for HtaLaunches {
    fn about(&self) -> About {
        About {
            settings: &[RUNTIME_OUTLIER, DELAY_OUTLIER],
            views: &VIEWS,
            ..head!(Some(NAME), "launches", "HTA's launch calls", [HtaLaunchStats, LaunchOutliers])
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let settings = &options.settings;
        launches(trace, give, settings.ns(&RUNTIME_OUTLIER), settings.ns(&DELAY_OUTLIER))
    }
}

fn launches(trace: &RankTrace, give: &mut RowEmitter, runtime_outlier: Ns, delay_outlier: Ns) -> Partial {
    let rows = load_all(trace);
    let wanted = NAMES.map(|n| trace.columns.strings.lookup(n.as_bytes()));
    let is_launch = |id: u32| wanted.contains(&Some(trace.columns.name(id as usize)));
    let ids: HashSet<i64> =
        rows.iter().filter(|r| r.correlation != -1 && is_launch(r.row.id)).map(|r| r.correlation).collect();
    let mut gpu: HashMap<i64, Vec<HtaRow>> = HashMap::new();
    for r in rows.iter().filter(|r| r.row.stream != -1 && ids.contains(&r.correlation)) {
        gpu.entry(r.correlation).or_default().push(r.row);
    }
    let mut table = HtaLaunchStats::default();
    let mut counts = [0u64; 4];
    let mut hosts: Vec<_> =
        rows.iter().filter(|r| r.row.stream == -1 && gpu.contains_key(&r.correlation)).collect();
    hosts.sort_by_key(|r| r.correlation);
    for host in hosts {
        for row in gpu.get(&host.correlation).into_iter().flatten() {
            let launch_delay = (row.ts - host.row.end()).max(0);
            counts[0] += 1;
            counts[1] += u64::from(row.dur < host.row.dur);
            counts[2] += u64::from(host.row.dur > runtime_outlier / 1000);
            counts[3] += u64::from(launch_delay > delay_outlier / 1000);
            table.push(HtaLaunchStatsRow {
                rank: trace.rank,
                correlation: host.correlation,
                cpu_duration: host.row.dur,
                gpu_duration: row.dur,
                launch_delay,
            });
            table.give_piece(give);
        }
    }
    let [launches, short_gpu_kernels, runtime_outliers, launch_delay_outliers] = counts;
    let mut outliers = LaunchOutliers::default();
    outliers.push(LaunchOutliersRow {
        rank: trace.rank,
        launches,
        short_gpu_kernels,
        runtime_outliers,
        launch_delay_outliers,
    });
    let reason = (launches == 0).then_some("no launch that HTA knows");
    give(table.finish());
    Partial { rank: trace.rank, tables: vec![outliers.finish()], reason }
}
