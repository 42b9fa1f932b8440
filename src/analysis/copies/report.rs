//! What stands out of the copies of all ranks.

use crate::api::{Certainty, Observation, Partial};
use crate::copies::CopyRules;
use crate::copies::copy::SMALL_BYTES;
use crate::copies::rules::CopyRule;
use crate::population::{SelectedRows, groups, several_devices};
use hta_base::table::typed::Values;
use hta_base::units::{fmt_bytes, fmt_count, fmt_ns, fmt_pct};
use hta_base::wording::counts::capital;
use std::cmp::Reverse;

/// Smallest cost of a rule that is reported, percent of the window.
const TOLD_FROM_PCT: f64 = 1.0;

/// The same for calls that synchronize, because some waiting at the end of a step is normal.
const SYNC_FROM_PCT: f64 = 5.0;

/// Number of small copies in a window from which they count as many.
const MANY: i64 = 100;

/// What each rule costs, for the rank to which it costs most.
pub fn observations(partials: &[Partial]) -> Vec<Observation> {
    let devices = groups::<CopyRules>(partials);
    let several = several_devices(&devices);
    CopyRule::ALL.into_iter().filter_map(|rule| worst(rule, &devices, several)).collect()
}

/// The observation for the rank to which a rule costs most.
fn worst(rule: CopyRule, devices: &[SelectedRows<CopyRules>], several: bool) -> Option<Observation> {
    let all: Vec<SelectedRows<CopyRules>> =
        devices.iter().map(|g| of_rule(g, rule)).filter(|g| !g.rows.is_empty()).collect();
    let g = all.iter().max_by_key(|g| (g.mean(|t| t.no_kernel_ns), Reverse(g.rank)))?;
    let least = if rule == CopyRule::Synchronize { SYNC_FROM_PCT } else { TOLD_FROM_PCT };
    let share = g.percent(|t| t.no_kernel_ns).filter(|s| *s >= least)?;
    let windows = g.rows.len() as i64;
    let count = g.sum(|t| t.count);
    if count == 0 || (rule == CopyRule::Small && count < MANY * windows) {
        return None;
    }
    let per = if g.is_steps { "per step" } else { "in the recorded span" };
    let number = match (count % windows, count / windows) {
        (0, n) => fmt_count(n as u64),
        (_, n) if n >= 10 => format!("about {}", fmt_count(n as u64)),
        _ => format!("{:.1}", count as f64 / windows as f64),
    };
    let is_one = number == "1";
    let (copies, sets) = if is_one { ("copy", "set") } else { ("copies", "sets") };
    let (staged, their) = if is_one {
        ("it is staged and blocks", "its call")
    } else {
        ("they are staged and block", "their calls")
    };
    let times = if is_one { "once".to_string() } else { format!("{number} times") };
    let size = fmt_bytes((g.sum(|t| t.size_bytes) / windows) as u64);
    let who = capital(&g.who(several));
    let call = fmt_ns(g.mean(|t| t.call_ns));
    let cost = format!(
        "no kernel runs for {} {} ({}) of that",
        fmt_ns(g.mean(|t| t.no_kernel_ns)),
        g.per(),
        fmt_pct(Some(share))
    );
    let sentence = match rule {
        CopyRule::Pageable => format!(
            "{who} makes {number} asynchronous {copies} {per} from or to pageable memory ({size}); {staged} \
             the host ({call} in {their}), and {cost}. Pin the memory (DataLoader(pin_memory=True), \
             tensor.pin_memory()) and pass non_blocking=True"
        ),
        CopyRule::SyncCopy => format!(
            "{who} makes {number} synchronous {copies} {per} ({size}); the host spends {call} in {their}, \
             and {cost}. Copy asynchronously, from pinned memory, and keep values on the device (`.item()`, \
             `.cpu()` and prints copy)"
        ),
        CopyRule::SyncSet => format!(
            "{who} makes {number} synchronous memory {sets} {per}; the host spends {call} in {their}, and \
             {cost}. Use the asynchronous call"
        ),
        CopyRule::Synchronize => format!(
            "{who} synchronizes {times} {per}: the host spends {call} in {their}, and {cost}. Remove \
             torch.cuda.synchronize(), `.item()` and `.cpu()` from the step, or order streams by events \
             instead"
        ),
        CopyRule::Small => format!(
            "{who} makes {number} copies of less than {} {per} ({size} together); they cost their launches, \
             not their bytes, and {cost}. Combine them into a few large ones, or leave the data where it is",
            fmt_bytes(SMALL_BYTES)
        ),
    };
    Some(Observation {
        analysis: "copies",
        ranks: vec![g.rank],
        steps: Vec::new(),
        cost_ns_per_step: g.mean(|t| t.no_kernel_ns),
        share_of_step: Some(share / 100.0),
        certainty: if rule == CopyRule::Small { Certainty::Inferred } else { Certainty::Measured },
        sentence,
        table: CopyRules::SPEC.name,
    })
}

/// The windows of a device in which a rule has a row.
fn of_rule<'a>(g: &SelectedRows<'a, CopyRules>, rule: CopyRule) -> SelectedRows<'a, CopyRules> {
    let is_of_rule = |r: &usize| g.columns.rule.at(*r) == rule.name();
    SelectedRows { rows: g.rows.iter().copied().filter(is_of_rule).collect(), ..*g }
}
