//! Causes about memory. They own no time: a job whose memory fills up loses none until it fails. What calls
//! of the driver cost is owned by `host_alloc`. Of a job each kind is one cause, told by its worst rank.

use crate::CauseKind;
use crate::cause::Cause;
use crate::cause_words::CauseWords;
use crate::context::Context;
use crate::evidence::{Evidence, of_text};
use crate::gain::OwnedTime;
use crate::threat::{MemoryThreatRow, MemoryThreats, SITE};
use hta_analysis::api::{Partial, rows};
use hta_analysis::memory::report::device_name;
use hta_base::wording::counts::plural;
use hta_base::wording::names::clip;
use std::cmp::Reverse;

/// The causes about memory, each told by its worst rank.
pub(crate) fn causes(context: &Context, partials: &[Partial]) -> Vec<Cause> {
    let told = CauseKind::all_memory().filter_map(|(kind, rule)| {
        let mut all: Vec<MemoryThreatRow> =
            rows::<MemoryThreats>(partials).filter(|row| row.kind == kind.name()).collect();
        all.sort_by_key(|r| (Reverse(r.weight), r.rank));
        let worst = all.first()?;
        let mut ranks: Vec<u32> = all.iter().map(|r| r.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let more = ranks.len().saturating_sub(1);
        let more = if more == 0 { String::new() } else { format!(" (and {} more)", plural(more, "rank")) };
        let mut cause = context.cause(kind, worst.site, ranks, OwnedTime::new(), 0);
        cause.bytes = worst.bytes;
        cause.words = CauseWords::new(format!("{}{more}", worst.words), "", rule.action);
        let device = worst.device.map_or("device IS NULL".to_string(), |id| format!("device = {id}"));
        let of_device =
            format!("rank = {} AND device_type = '{}' AND {device}", worst.rank, worst.device_type);
        cause.evidence = vec![Evidence {
            table: rule.table,
            filter: format!("{of_device} AND {}", rule.condition),
            words: format!("{}: {}", device_name(worst.device_type, worst.device), worst.evidence),
        }];
        let site = rule.site.filter(|_| !worst.site.is_empty());
        cause.evidence.extend(site.map(|(table, condition)| Evidence {
            table,
            filter: format!("{of_device} AND {}", of_text(condition, worst.site)),
            words: format!("most of it comes from `{}`", clip(worst.site, SITE)),
        }));
        Some(cause)
    });
    told.collect()
}
