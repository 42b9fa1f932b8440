//! GPU time by what kernels do.

use crate::api::Options;
use crate::kernels::{by_key, scope_name, sums};
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::{Batch, Text};
use hta_base::table::view::{Keep, Note, TableError, ViewScope, ViewSpec};
use hta_base::units::{Ns, fmt_pct, percent};
use hta_facts::kernel_work::KernelWorks;
use hta_facts::step_scopes::StepScopes;
use hta_trace::interval::Union;
use hta_trace::kernel::category::Category;
use hta_trace::rank_trace::RankTrace;
use hta_trace::window::Scope;

table! {
    /// GPU time by what activities do. Each activity has one category, so sums add up to the time of all
    /// activities.
    pub struct KernelCategories, KernelCategoryRow = "kernel_categories"
        by "rank, device, scope, step, category, sub_category" {
        rank; device;
        scope: Text, "", "span: all activities; step: those launched in it; outside: the rest";
        step: Option<u32>, "", "index of the step of the launch";
        step_label;
        category: Text, "",
            "gemm, attention, convolution, moe, normalization, softmax, elementwise, reduction, layout, \
             shard_copy, gather_scatter, sort_topk, random, optimizer, quantization, pooling, fused, \
             communication, memcpy, memset or unknown";
        sub_category: Text, "", "part of a category, such as copy of layout; empty for most";
        count: u64, "", "activities";
        sum_ns: i64, "ns", "sum of durations";
        busy_ns: i64, "ns", "time in which at least one of them runs";
        time_pct: Option<f64>, "%", "of the summed durations of the scope";
    }
}

table! {
    /// GPU time by what activities do, over all ranks and devices.
    pub struct CategoriesOverRanks, CategoryOverRanksRow = "kernel_categories_over_ranks"
        by "scope, sum_ns descending, count descending, category" key "scope, category" {
        scope: Text, "", "span: all activities; step: those launched in a step; outside: the rest";
        category: Text, "", "what they do, as in kernel_categories";
        count: u64, "", "activities, on all ranks", "count" => sum(count);
        sum_ns: i64, "ns", "sum of their durations" => sum(sum_ns);
        rank_count: u32, "", "ranks that have them" => ranks;
        max_rank: u32, "", "rank with most time; of several the lowest" => rank_of_max(sum_ns);
        max_rank_ns: i64, "ns", "sum of durations on that rank" => max_of_rank(sum_ns);
    }
}

pub(crate) const OVER_RANKS: Rollup = Rollup::of(KernelCategories::SPEC, CategoriesOverRanks::SPEC);

pub(crate) const VIEW: ViewSpec = ViewSpec {
    title: "GPU time by what kernels do",
    columns: &["category", "count", "sum_ns"],
    means: &[("sum_ns", "count", "mean")],
    shares: &[("sum_ns", "of GPU time")],
    keep: &[Keep::Scope("span")],
    notes: &[Note::Made(known)],
    ..ViewSpec::of(CategoriesOverRanks::SPEC)
};

/// Share of the time of the span whose kernels some rule must know, percent; below it the report says so.
const KNOWN_PCT: f64 = 98.0;

pub(crate) fn table(trace: &RankTrace, scopes: &StepScopes, options: &Options) -> Batch {
    let works = KernelWorks::of(trace);
    let mut table = KernelCategories::default();
    for work in trace.devices.iter().filter(|w| w.is_gpu) {
        let category = |i| (works.at(i).category, works.at(i).sub);
        let mut groups = by_key(trace, work, (scopes, options), category);
        groups.sort_by_key(|(window, key, _)| (*window, *key));
        let all = sums(trace, scopes, &groups);
        for (window, (category, sub_category), of) in &groups {
            let (w, span) = (&scopes.windows()[*window], |i: &u32| trace.activities[*i as usize].span);
            let sum_ns = of.iter().map(|i| span(i).len()).sum();
            table.push(KernelCategoryRow {
                rank: trace.rank,
                device: work.device,
                scope: scope_name(w),
                step: w.step,
                step_label: w.label,
                category: category.name(),
                sub_category,
                count: of.len() as u64,
                sum_ns,
                busy_ns: Union::new(of.iter().map(span)).len(),
                time_pct: percent(sum_ns, all[*window]),
            });
        }
    }
    table.finish()
}

/// How much of the time is of kernels that some rule knows, where that is little.
fn known(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let (mut all, mut unknown): (Ns, Ns) = (0, 0);
    let printed = scope.scope(Scope::Span.name());
    scope.each::<CategoriesOverRanks>(|r| {
        if r.scope == printed {
            all += r.sum_ns;
            unknown += if r.category == Category::Unknown.name() { r.sum_ns } else { 0 };
        }
    })?;
    let known = percent(all - unknown, all).filter(|known| *known < KNOWN_PCT);
    let known = known.map(|pct| fmt_pct(Some(pct)));
    Ok(known.map(|pct| {
        format!("{pct} of the time is of kernels that a rule knows (data/kernel_categories.toml)")
    }))
}
