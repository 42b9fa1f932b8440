//! Kernels of experts take 2 % of the time of devices or more, and no kernel or collective of the job is
//! known to exchange tokens between ranks. Either every rank has all experts, or the exchange runs in kernels
//! that are taken for compute: then overlap is too high and waiting too low, and what is told of ranks and of
//! transfers is a bound. Nothing is told about layers of experts. Experts that are split by tensor, of which
//! at least half of the runs are followed by an all-reduce, reduce-scatter or all-gather, are left out.

use crate::end_together::ends_together;
use crate::recording::capability::{Capability, Grade};
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::{Ns, fmt_pct, percent};
use hta_facts::token_exchange::TokenExchange;
use hta_trace::kernel_name::function_path;
use std::cmp::Reverse;
use std::collections::BTreeMap;

pub const NAME: &str = "experts_without_exchange";

/// Share of the time of devices, percent.
const LEAST_PCT: f64 = 2.0;
/// Most kernels that are named.
const MOST: usize = 5;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let job = recorded.job;
    let of: Vec<&TokenExchange> = job.parts.iter().map(|p| &p.tokens).collect();
    let sum = |what: fn(&TokenExchange) -> Ns| of.iter().map(|t| what(t)).sum::<Ns>();
    let (gpu, moe) = (sum(|t| t.gpu), sum(|t| t.moe));
    let (runs, summed) = (sum(|t| i64::from(t.runs)), sum(|t| i64::from(t.summed)));
    let world = job.parts.iter().filter_map(|p| p.world).max().unwrap_or(0).max(of.len() as u32);
    let Some(share) = percent(moe, gpu).filter(|p| *p >= LEAST_PCT) else { return Vec::new() };
    if world < 2 || of.iter().any(|t| t.is_known) || summed * 2 >= runs {
        return Vec::new();
    }
    let measured = format!("{} of the time of devices", fmt_pct(Some(share)));
    let limit = Limit {
        rank: None,
        capability: Capability::Experts,
        grade: Grade::Withheld,
        rule: NAME,
        sentence: format!(
            "experts compute ({} of the device's time) but no kernel is known to exchange tokens. Every rank \
             has all experts, or the exchange runs in kernels taken for compute: overlap and waiting then \
             come out too good{}",
            fmt_pct(Some(share)),
            unknown(recorded, gpu)
        ),
        measured,
        limit: "a known exchange of tokens".to_string(),
        next: "name kernels that exchange with `--rules FILE`".to_string(),
    };
    limit.withheld_or_bound(
        &[Capability::Experts],
        &[Capability::Overlap, Capability::Ranks, Capability::Transfer],
    )
}

/// The unknown kernels around the experts, those that behave like exchanges first.
fn unknown(recorded: &Recorded, gpu: Ns) -> String {
    let job = recorded.job;
    let together = ends_together(job);
    let mut sums: BTreeMap<String, (bool, Ns)> = BTreeMap::new();
    for part in &job.parts {
        for (name, ns) in &part.tokens.unknown {
            let name = job.names.get(*name);
            let of = sums.entry(function_path(name)).or_default();
            *of = (of.0 || together.iter().any(|k| k.name == name), of.1 + ns);
        }
    }
    let mut all: Vec<_> = sums.into_iter().collect();
    // Stable: equal ones stay in order of their names.
    all.sort_by_key(|(_, (is_together, ns))| (!is_together, Reverse(*ns)));
    let shown = |(name, (_, ns)): &(String, (bool, Ns))| format!("{name} ({})", fmt_pct(percent(*ns, gpu)));
    let shown: Vec<String> = all.iter().take(MOST).map(shown).collect();
    if shown.is_empty() {
        return String::new();
    }
    format!(". Unknown kernels between router and experts: {}", shown.join(", "))
}
