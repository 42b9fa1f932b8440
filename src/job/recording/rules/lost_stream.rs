//! All other ranks compute mostly on one stream, and of this stream a rank has no activity at all, while it
//! computes less than half as long as they do: the stream was not recorded. Nothing is told about the device
//! of the rank.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;
use crate::recording::rules::{Recorded, cut_rank};
use hta_base::order_statistics::median;
use hta_base::units::{Ns, fmt_ns};
use hta_base::wording::ranks::ranks_named;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    use Capability::{DeviceTime, Host, Idle, Launch, Ranks, Steps, Transfer, Work};
    let lost =
        recorded.ranks.iter().filter(|r| r.activity_count > 0).filter_map(|r| limit(r, recorded.ranks));
    lost.flat_map(|l| l.withheld_or_bound(&[DeviceTime, Idle, Host, Launch, Ranks, Work], &[Steps, Transfer]))
        .collect()
}

fn limit(r: &RecordingRow, all: &[RecordingRow]) -> Option<Limit> {
    let others = || all.iter().filter(|o| o.rank != r.rank && o.activity_count > 0);
    let stream = others().next()?.main_stream?;
    if others().count() < 2 || others().any(|o| o.main_stream != Some(stream)) {
        return None;
    }
    let mut times: Vec<Ns> = others().map(|o| o.compute_ns).collect();
    let usual = median(&mut times)?;
    let has = r.streams.split(',').any(|s| s.parse() == Ok(stream));
    if has || r.compute_ns * 2 >= usual {
        return None;
    }
    let cause = if r.is_cut() { "" } else { ": the stream was not recorded" };
    let limit = Limit {
        rank: Some(r.rank),
        capability: Capability::DeviceTime,
        grade: Grade::Withheld,
        rule: "lost_stream",
        measured: format!("no activity on stream {stream}, {} of compute", fmt_ns(r.compute_ns)),
        limit: format!("{} of compute, as the others", fmt_ns(usual)),
        sentence: format!(
            "{} has no activity on stream {stream}, on which all others compute{cause}",
            ranks_named(&[r.rank])
        ),
        next: "record again, and check that no other tool uses the device's tracing at the same time"
            .to_string(),
    };
    Some(limit.behind_cut(&cut_rank(r)))
}

#[cfg(test)]
mod tests {
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn a_stream_that_one_rank_lacks_is_lost_and_another_number_is_not() {
        let with = |streams: &'static str, compute: i64| {
            let last = rank(2, |r| (r.streams, r.main_stream, r.compute_ns) = (streams, None, compute));
            found("lost_stream", vec![rank(0, |_| {}), rank(1, |_| {}), last])
        };
        assert_eq!(with("20", 0)[0].rank, Some(2));
        assert_eq!(with("20", 900), []);
        assert_eq!(with("7,20", 0), []);
    }
}
