//! The mix of kernels: what compute time is made of, by category, and what of it could be done better.
//!
//! Categories are those of `hta kernels`. Each nanosecond of compute belongs to one kernel: of
//! concurrent ones to that which started first.

use crate::facts::kernel_work::{KernelWork, KernelWorks};
use crate::kernel::category::Category;
use crate::table;
use crate::table::schema::Text;
use crate::trace::device::DeviceWork;
use crate::trace::rank_trace::RankTrace;
use crate::trace::strings::StrId;
use crate::trace::timeline::WorkClass;
use crate::trace::window::Window;
use crate::units::{Ns, Span};
use std::collections::{BTreeMap, HashMap};

table! {
    /// Compute time of a device in a window, by category of kernel.
    pub struct KernelMix, KernelMixRow = "kernel_mix" by "rank, device, scope, step, category" {
        rank; device; scope; step; step_label;
        category: Text, "", "as in kernel_categories; copies with another type or stride are elementwise";
        time_ns: i64, "ns", "compute time, each instant in one category";
        kernel_count: u64, "", "kernels that start in the window";
        small_ns: i64, "ns", "of kernels shorter than 10 us";
        compiled_ns: i64, "ns", "of kernels that a compiler generated";
        simt_ns: i64, "ns", "of matrix products and convolutions in fp32 without tensor cores, of 10 us and longer";
        batched_ns: i64, "ns", "of batched matrix products (aten::bmm, aten::baddbmm)";
    }
}

/// Kernels below this length are small, ns.
const SMALL: Ns = 10_000;

/// Parts of names of matrix products and convolutions in fp32 that do not use tensor cores, lower case.
const SIMT: [&str; 6] = ["sgemm", "scudnn", "simt_s", "ffma", "engine<float", "winograd_nonfused"];

/// What the mix of kernels knows of one kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KernelFacts {
    category: &'static str,
    is_compiled: bool,
    is_simt: bool,
}

impl KernelFacts {
    fn new(name: &str, work: KernelWork) -> Self {
        let lower = name.to_ascii_lowercase();
        let is_matrix = matches!(work.category, Category::Convolution | Category::Gemm);
        // Copies with another type or stride are work on elements, which a compiler fuses.
        let is_copy = work.category == Category::Layout && work.sub == "copy";
        let has = |parts: &[&str]| parts.iter().any(|p| lower.contains(p));
        Self {
            category: if is_copy { Category::Elementwise.name() } else { work.category.name() },
            is_compiled: work.category == Category::Fused,
            is_simt: is_matrix && has(&SIMT) && !lower.contains("tf32"),
        }
    }
}

#[derive(Default)]
struct Sum {
    time: Ns,
    count: u64,
    small: Ns,
    compiled: Ns,
    simt: Ns,
    batched: Ns,
}

struct Kernel {
    /// The part of its span that belongs to it.
    own: Span,
    start: Ns,
    len: Ns,
    facts: KernelFacts,
    is_batched: bool,
}

pub fn push(table: &mut KernelMix, trace: &RankTrace, work: &DeviceWork, windows: &[Window]) {
    if !work.is_gpu {
        return;
    }
    let kernels = kernels(trace, work);
    for w in windows {
        let mut sums: BTreeMap<&'static str, Sum> = BTreeMap::new();
        for part in &w.parts {
            let first = kernels.partition_point(|k| k.own.end <= part.start);
            for k in kernels[first..].iter().take_while(|k| k.own.start < part.end) {
                let time = k.own.intersect(*part).len();
                let sum = sums.entry(k.facts.category).or_default();
                sum.time += time;
                sum.count += u64::from(part.holds(k.start));
                let add = |to: &mut Ns, when: bool| *to += if when { time } else { 0 };
                add(&mut sum.small, k.len < SMALL);
                add(&mut sum.compiled, k.facts.is_compiled);
                add(&mut sum.simt, k.facts.is_simt && k.len >= SMALL);
                add(&mut sum.batched, k.is_batched);
            }
        }
        for (category, s) in sums {
            table.push(KernelMixRow {
                rank: trace.rank,
                device: work.device,
                scope: w.scope.name(),
                step: w.step,
                step_label: w.label,
                category,
                time_ns: s.time,
                kernel_count: s.count,
                small_ns: s.small,
                compiled_ns: s.compiled,
                simt_ns: s.simt,
                batched_ns: s.batched,
            });
        }
    }
}

/// Compute of a device in order of time, each instant once.
fn kernels(trace: &RankTrace, work: &DeviceWork) -> Vec<Kernel> {
    let works = KernelWorks::of(trace);
    let mut known: HashMap<(StrId, KernelWork), KernelFacts> = HashMap::new();
    let mut batched: HashMap<u32, bool> = HashMap::new();
    let mut out = Vec::new();
    let mut at = Ns::MIN;
    let all = work.activities.iter().map(|&i| (works.at(i), &trace.activities[i as usize]));
    for (does, a) in all.filter(|(_, a)| a.work == WorkClass::Compute) {
        let facts = *known.entry((a.name, does)).or_insert_with(|| KernelFacts::new(trace.text(a.name), does));
        let is_bmm = |op: u32| matches!(trace.name(op), "aten::bmm" | "aten::baddbmm" | "aten::baddbmm_");
        let is_batched = a.op().is_some_and(|op| *batched.entry(op).or_insert_with(|| is_bmm(op)));
        let own = Span::new(a.span.start.max(at), a.span.end.max(at));
        out.push(Kernel { own, start: a.span.start, len: a.span.len(), facts, is_batched });
        at = at.max(a.span.end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::category::Reason;

    #[test]
    fn products_in_fp32_without_tensor_cores_are_found_by_name() {
        let is_simt = |name: &str| {
            let work = KernelWork { category: Category::Gemm, reason: Reason::Name, sub: "" };
            KernelFacts::new(name, work).is_simt
        };
        assert!(is_simt("volta_sgemm_128x64_nt"));
        assert!(!is_simt("ampere_tf32_s1688gemm_128x128"));
        assert!(!is_simt("ampere_bf16_s16816gemm_bf16_128x128"));
    }

    #[test]
    fn copies_between_types_count_as_work_on_elements() {
        let work = |sub| KernelWork { category: Category::Layout, reason: Reason::Name, sub };
        assert_eq!(KernelFacts::new("direct_copy", work("copy")).category, "elementwise");
        assert_eq!(KernelFacts::new("nchwToNhwc", work("")).category, "layout");
    }
}
