//! GPU time by what kernels do.

use crate::api::{Align, Options, Partial, View, rows};
use crate::facts::kernel_work::KernelWorks;
use crate::facts::step_scopes::StepScopes;
use crate::kernels::{by_key, scope_name, sums};
use crate::over_ranks::OverRanks;
use hta_base::table;
use hta_base::table::schema::{Batch, Table, Text};
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct, percent};
use hta_trace::interval::Union;
use hta_trace::kernel::category::Category;
use hta_trace::rank_trace::RankTrace;

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
        by "scope, sum_ns descending, count descending, category" {
        scope: Text, "", "span: all activities; step: those launched in a step; outside: the rest";
        category: Text, "", "what they do, as in kernel_categories";
        count: u64, "", "activities, on all ranks";
        sum_ns: i64, "ns", "sum of their durations";
        rank_count: u32, "", "ranks that have them";
        max_rank: u32, "", "rank with most time; of several the lowest";
        max_rank_ns: i64, "ns", "sum of durations on that rank";
    }
}

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

pub(crate) fn over_ranks(partials: &[Partial]) -> Batch {
    let mut all: OverRanks<&str, 2> = OverRanks::new();
    for r in rows::<KernelCategories>(partials) {
        all.add(r.scope, r.category, r.rank, [r.sum_ns, r.count as i64]);
    }
    let mut table = CategoriesOverRanks::default();
    for (scope, category, s) in all.rows() {
        table.push(CategoryOverRanksRow {
            scope,
            category,
            count: s.sums[1] as u64,
            sum_ns: s.sums[0],
            rank_count: s.rank_count,
            max_rank: s.max.1,
            max_rank_ns: s.max.0,
        });
    }
    table.finish()
}

/// Categories over all ranks and devices, largest first.
pub(crate) fn view(categories: &Batch, scope: &str) -> View {
    let rows: Vec<_> = CategoriesOverRanks::rows(categories).filter(|r| r.scope == scope).collect();
    let all: Ns = rows.iter().map(|r| r.sum_ns).sum();
    let unknown = rows.iter().find(|r| r.category == Category::Unknown.name()).map_or(0, |r| r.sum_ns);
    let note = percent(all - unknown, all).filter(|known| *known < KNOWN_PCT).map(|known| {
        format!(
            "{} of the time is of kernels that a rule knows (data/kernel_categories.toml)",
            fmt_pct(Some(known))
        )
    });
    View {
        title: "GPU time by what kernels do".to_string(),
        columns: vec![
            ("category", Align::Left),
            ("count", Align::Right),
            ("sum", Align::Right),
            ("mean", Align::Right),
            ("of GPU time", Align::Right),
        ],
        rows: rows
            .into_iter()
            .map(|r| {
                let mean = r.sum_ns / (r.count as Ns).max(1);
                let (name, share) = (r.category.replace('_', " "), fmt_pct(percent(r.sum_ns, all)));
                vec![name, fmt_count(r.count), fmt_ns(r.sum_ns), fmt_ns(mean), share]
            })
            .collect(),
        notes: note.into_iter().collect(),
    }
}
