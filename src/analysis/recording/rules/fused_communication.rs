//! Kernels that exchange and multiply in one ("fused") run 5 % of the busy time of devices or more. Nothing
//! in a trace tells their exchange, product and waiting apart: what ranks wait for each other, and what is
//! exchanged, are bounds. `overlap` has no ratio where they run longer than the exchanges with kernels of
//! their own.

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

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let busy = |r: &RecordingRow| r.recorded_ns * Ns::from(r.device_count) - r.idle_ns;
    let (busy, fused) = recorded.ranks.iter().fold((0, 0), |(b, f), r| (b + busy(r), f + r.fused_ns));
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
    limit.of_all(&[Capability::Ranks, Capability::Transfer])
}

#[cfg(test)]
mod tests {
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn fused_kernels_make_waiting_a_bound_from_a_twentieth_on() {
        let of = |fused| {
            let ranks = [0, 1].map(|r| {
                rank(r, |row| {
                    (row.recorded_ns, row.fused_ns, row.fused_name) = (1000, fused, Some("mega_moe"))
                })
            });
            found(super::NAME, ranks.to_vec())
        };
        assert!(of(0).is_empty() && of(49).is_empty());
        let limits = of(600);
        assert_eq!(limits.len(), 2);
        assert_eq!(
            limits[0].sentence,
            "60.0 % of the device's time is in kernels that exchange and multiply (mega_moe)"
        );
    }
}
