//! Lines over all ranks.

use crate::api::{Partial, rows};
use crate::lines::key::LineKey;
use crate::lines::tables::{LineOverRanksRow, LinesOverRanks, LinesTable};
use crate::over_ranks::{OverRanks, add_known};
use hta_base::table::schema::Batch;

pub(crate) fn table(partials: &[Partial]) -> Batch {
    let mut all: OverRanks<(LineKey, &str, bool), 7, [Option<i64>; 2]> = OverRanks::new();
    for r in rows::<LinesTable>(partials) {
        let (own, total) = (r.host_self_ns, r.host_total_ns);
        let sums = [own, r.native_ns, r.python_ns, total, r.blocked_ns, r.gpu_sum_ns, r.calls as i64];
        let known = all.add(r.scope, (LineKey::new(&r), r.level, r.is_idle_thread), r.rank, sums);
        known
            .iter_mut()
            .zip([r.bwd_gpu_sum_ns, r.alloc_bytes])
            .for_each(|(sum, value)| add_known(sum, value));
    }
    let mut sorted = all.rows();
    sorted.sort_by_key(|(scope, (_, _, is_idle), _)| (*scope, *is_idle));
    let mut table = LinesOverRanks::default();
    for (scope, (LineKey { file, line, function, module }, level, is_idle_thread), s) in sorted {
        let [host_self_ns, native_ns, python_ns, host_total_ns, blocked_ns, gpu_sum_ns, calls] = s.sums;
        let [bwd_gpu_sum_ns, alloc_bytes] = s.more;
        table.push(LineOverRanksRow {
            scope,
            file,
            line,
            function,
            module,
            level,
            is_idle_thread,
            calls: calls as u64,
            host_self_ns,
            host_total_ns,
            native_ns,
            python_ns,
            blocked_ns,
            gpu_sum_ns,
            bwd_gpu_sum_ns,
            alloc_bytes,
            rank_count: s.rank_count,
            max_rank: s.max.1,
            max_rank_ns: s.max.0,
        });
    }
    table.finish()
}
