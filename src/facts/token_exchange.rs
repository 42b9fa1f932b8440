//! Whether a rank with experts exchanges tokens in kernels that are known, which unknown ones run around the
//! experts, and what its copy engines exchange with other ranks.

use crate::collectives::collectives;
use crate::kernel_work::KernelWorks;
use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_trace::category::Class;
use hta_trace::collective::KernelRole;
use hta_trace::collective::{CollectiveCall, CollectiveKind};
use hta_trace::kernel::category::Category;
use hta_trace::rank_trace::RankTrace;
use hta_trace::rules::copy_kind;
use hta_trace::strings::{Interner, StrId};
use hta_trace::timeline::WorkClass;

/// What a rank tells of the exchange of tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenExchange {
    /// Summed duration of all activities, and of kernels of experts.
    pub gpu: Ns,
    pub moe: Ns,
    /// Whether a kernel or a collective is known to exchange tokens.
    pub is_known: bool,
    /// Runs of kernels of experts, and those that an all-reduce, reduce-scatter or all-gather follows.
    pub runs: u32,
    pub summed: u32,
    /// Copies between devices that count as memory, and whether barriers of symmetric memory are beside them.
    pub peer_copies: Ns,
    pub has_symmetric_memory: bool,
    /// Compute kernels without a category between the products around the experts, and their time.
    pub unknown: Vec<(StrId, Ns)>,
}

/// Whether a kernel sends tokens to experts or brings results back.
fn exchanges_tokens(role: KernelRole) -> bool {
    let is_token = |word: &str| matches!(word, "dispatch" | "combine" | "all_to_all");
    role.name().split('+').any(is_token)
}

impl TokenExchange {
    pub fn of(trace: &RankTrace, names: &mut Interner) -> Self {
        let calls = collectives(trace);
        let mut out = Self {
            is_known: calls.calls.iter().any(|c| c.shape.kind == CollectiveKind::AllToAll),
            ..Self::default()
        };
        let works = KernelWorks::of(trace);
        let mut found: HashMap<StrId, Ns> = HashMap::new();
        let mut settle = |pending: &mut Vec<(StrId, Ns)>, is_around: bool| {
            let around = pending.drain(..).filter(|_| is_around);
            around.for_each(|(name, len)| *found.entry(name).or_default() += len);
        };
        let mut pending: Vec<(StrId, Ns)> = Vec::new();
        let (mut is_around, mut is_run, mut is_open) = (false, false, false);
        for (i, a) in (0u32..).zip(&trace.activities) {
            let len = a.span.len();
            out.gpu += len;
            out.is_known |= a.role.is_some_and(exchanges_tokens);
            if a.role == Some(KernelRole::Barrier) && !out.has_symmetric_memory {
                out.has_symmetric_memory = trace.text(a.name).contains("symmetric_memory");
            }
            if a.class == Class::Memcpy && a.work == WorkClass::Memory {
                let is_peer = copy_kind(a.class, trace.text(a.name)) == "PtoP";
                out.peer_copies += if is_peer { len } else { 0 };
            }
            let is_fused_sum = a.role.is_some_and(|role| role.is_fused() && !exchanges_tokens(role));
            if is_fused_sum && is_open {
                (out.summed, is_open) = (out.summed + 1, false);
            }
            match works.at(i).category {
                Category::Moe => {
                    out.moe += len;
                    out.runs += u32::from(!is_run);
                    (is_around, is_run, is_open) = (true, true, true);
                }
                Category::Gemm | Category::Attention => {
                    settle(&mut pending, is_around);
                    (is_around, is_run) = (false, false);
                }
                Category::Unknown if a.work == WorkClass::Compute => pending.push((a.name, len)),
                Category::Communication if is_open => {
                    let is_sum = matches!(
                        calls.kind_of(a.row),
                        CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::AllGather
                    );
                    out.summed += u32::from(is_sum);
                    is_open = !is_sum;
                }
                _ => {}
            }
        }
        settle(&mut pending, is_around);
        // NCCL exchanges tokens in kernels that send and receive, of which nsys says no more.
        let is_both = |c: &&CollectiveCall| c.shape.kind == CollectiveKind::SendRecv;
        out.is_known |= out.runs > 0 && calls.calls.iter().filter(is_both).count() >= out.runs as usize;
        let mut unknown: Vec<(StrId, Ns)> = found.into_iter().collect();
        unknown.sort_unstable();
        // Names of ranks that need none are not kept.
        if !out.is_known && out.moe > 0 {
            out.unknown =
                unknown.into_iter().map(|(name, len)| (names.intern(trace.text(name)), len)).collect();
        }
        out
    }
}
