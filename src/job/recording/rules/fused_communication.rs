//! Kernels that exchange and multiply in one ("fused") run 5 % of the busy time of devices or more. Nothing
//! in a trace tells their exchange, product and waiting apart: what ranks wait for each other, and what is
//! exchanged, are bounds. Where they run longer than the exchanges with kernels of their own, `overlap` has
//! no ratio, and nothing is told of it.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::{Ns, fmt_pct, percent};

pub const NAME: &str = "fused_communication";

/// Share of the busy time of devices, percent.
pub const LEAST_PCT: f64 = 5.0;

/// The share of fused kernels, percent, from where what is told of exchanges is a bound; `None` below.
pub fn fused_share(fused: Ns, whole: Ns) -> Option<f64> {
    percent(fused, whole).filter(|share| *share >= LEAST_PCT)
}

/// Whether most of the exchange may be inside fused kernels, so that nothing is known of its overlap.
pub fn hides_overlap(fused: Ns, whole: Ns, communication: Ns) -> bool {
    fused_share(fused, whole).is_some() && fused > communication
}

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let sum = |of: fn(&RecordingRow) -> Ns| recorded.ranks.iter().map(of).sum::<Ns>();
    let busy = sum(|r| r.recorded_ns * Ns::from(r.device_count) - r.idle_ns);
    let (fused, communication) = (sum(|r| r.fused_ns), sum(|r| r.communication_ns));
    let Some(share) = fused_share(fused, busy) else { return Vec::new() };
    let longest: Option<&str> = recorded.ranks.iter().max_by_key(|r| r.fused_ns).and_then(|r| r.fused_name);
    let name = longest.map(|name| format!(" ({name})")).unwrap_or_default();
    let limit = Limit {
        rank: None,
        capability: Capability::Ranks,
        grade: Grade::AtMost,
        rule: NAME,
        sentence: format!(
            "{} of the device's time is in kernels that exchange and multiply{name}",
            fmt_pct(Some(share))
        ),
        measured: fmt_pct(Some(share)),
        limit: fmt_pct(Some(LEAST_PCT)),
        next: "record one run without fusion (vLLM: another `moe_backend`)".to_string(),
    };
    let withheld: &[Capability] =
        if hides_overlap(fused, busy, communication) { &[Capability::Overlap] } else { &[] };
    limit.withheld_or_bound(withheld, &[Capability::Ranks, Capability::Transfer])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn fused_kernels_make_waiting_a_bound_from_a_twentieth_on() {
        let of = |fused| {
            let ranks = [0, 1].map(|r| {
                rank(r, |row| {
                    (row.recorded_ns, row.fused_ns, row.fused_name) = (1000, fused, Some("mega_moe"))
                })
            });
            found(NAME, ranks.to_vec())
        };
        assert!(of(0).is_empty() && of(49).is_empty());
        let limits = of(600);
        let graded = |l: &Limit| (l.capability, l.grade);
        assert_eq!(
            limits.iter().map(graded).collect::<Vec<_>>(),
            [
                (Capability::Overlap, Grade::Withheld),
                (Capability::Ranks, Grade::AtMost),
                (Capability::Transfer, Grade::AtMost)
            ]
        );
        assert_eq!(
            limits[0].sentence,
            "60.0 % of the device's time is in kernels that exchange and multiply (mega_moe)"
        );
    }
}
