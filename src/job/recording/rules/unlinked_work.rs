//! More than 5 % of the GPU time of a rank has no launch record. How long its work waited after the launch is
//! known for the rest only, so that delays and queues are bounds; from half of the time on nothing is told
//! about launches, and causes on the host are bounds.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::{RecordingRow, UNLINKED_PCT};
use crate::recording::limit::Limit;
use crate::recording::rules::{Recorded, cut_rank};
use hta_base::units::{fmt_pct, percent};
use hta_base::wording::ranks::ranks_named;

/// Share of GPU time without a launch from which nothing is told about launches, percent.
const HALF_PCT: f64 = 50.0;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    recorded.ranks.iter().flat_map(of_rank).collect()
}

fn of_rank(r: &RecordingRow) -> Vec<Limit> {
    let Some(share) = percent(r.unlinked_ns, r.gpu_sum_ns).filter(|p| *p > UNLINKED_PCT) else {
        return Vec::new();
    };
    let at_most = Limit {
        rank: Some(r.rank),
        capability: Capability::Launch,
        grade: Grade::AtMost,
        rule: "unlinked_work",
        measured: fmt_pct(Some(share)),
        limit: fmt_pct(Some(UNLINKED_PCT)),
        sentence: format!(
            "{} of the GPU time of {} has no launch record",
            fmt_pct(Some(share)),
            ranks_named(&[r.rank])
        ),
        next: "start the profiler before the work is launched, and record calls of the runtime".to_string(),
    };
    let at_most = at_most.behind_cut(&cut_rank(r));
    match share > HALF_PCT {
        true => {
            vec![
                Limit { grade: Grade::Withheld, ..at_most.clone() },
                Limit { capability: Capability::Host, ..at_most },
            ]
        }
        false => vec![at_most],
    }
}

#[cfg(test)]
mod tests {
    use crate::recording::capability::Grade;
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn time_without_launches_is_a_bound_and_then_withheld() {
        let with =
            |ns: i64| found("unlinked_work", vec![rank(0, |r| (r.gpu_sum_ns, r.unlinked_ns) = (1000, ns))]);
        assert_eq!(with(50), []);
        assert_eq!(with(51).iter().map(|l| l.grade).collect::<Vec<_>>(), [Grade::AtMost]);
        assert_eq!(with(501).iter().map(|l| l.grade).collect::<Vec<_>>(), [Grade::Withheld, Grade::AtMost]);
    }
}
