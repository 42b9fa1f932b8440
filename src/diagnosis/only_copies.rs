//! Jobs in which only copies run.

use crate::account::{JobAccount, TimePart};
use crate::copy_times::CopyTime;
use hta_base::units::{Ns, fmt_number, fmt_pct, percent};
use std::collections::BTreeMap;

/// Kernels that take less than this share of the time of the copies do not count beside them, percent.
const KERNELS_PCT: Ns = 1;

/// What runs in a job that only copies, with rates; `None` if kernels run, too. There copies are the work,
/// and no time is lost in them.
pub(crate) fn alone(account: &JobAccount) -> Option<String> {
    let parts =
        [TimePart::Compute, TimePart::Fused, TimePart::Waiting, TimePart::Transfer, TimePart::Unmatched];
    let kernels: Ns = parts.iter().map(|part| account.sum(*part)).sum();
    let copies = account.sum(TimePart::Copies);
    if copies == 0 || kernels * 100 >= copies * KERNELS_PCT {
        return None;
    }
    let mut sums: BTreeMap<&str, CopyTime> = BTreeMap::new();
    for (direction, of) in account.cells().flat_map(|(_, _, cell)| cell.copies.iter()) {
        sums.entry(direction).or_default().add(of);
    }
    let rates = sums
        .iter()
        .filter(|(_, s)| s.sized > 0)
        .map(|(direction, s)| format!("{direction} {} GB/s", fmt_number(s.bytes as f64 / s.sized as f64)));
    let rates: Vec<String> = rates.collect();
    let sized: Ns = sums.values().map(|s| s.sized).sum();
    let both = (sized - copies).max(0);
    let together = match percent(both * 2, sized).filter(|_| rates.len() > 1) {
        Some(pct) if pct >= 1.0 => format!(", {} of their time at once", fmt_pct(Some(pct))),
        _ => String::new(),
    };
    let no = if kernels > 0 { "hardly any" } else { "no" };
    let rates = if rates.is_empty() { "no size is recorded".to_string() } else { rates.join(", ") };
    Some(format!("Only copies run, {no} compute: {rates}{together}"))
}
