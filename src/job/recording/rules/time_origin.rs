//! Files of ranks do not say since when their times count (baseTimeNanoseconds), and their collectives do not
//! end together, so that the times of ranks cannot be compared. Nothing is told about who waits for whom.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::{RecordingRow, WHOLE};
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::wording::ranks::ranks_named;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let parts = &recorded.job.parts;
    let without = parts.iter().filter(|p| !p.has_origin && !p.calls.calls.is_empty());
    let mut ranks: Vec<u32> = without.map(|p| p.rank).collect();
    ranks.sort_unstable();
    if ranks.is_empty() || parts.len() < 2 {
        return Vec::new();
    }
    let who = ranks_named(&ranks);
    let limit = Limit {
        rank: None,
        capability: Capability::Ranks,
        grade: Grade::Withheld,
        rule: "time_origin",
        measured: format!("no time origin of {who}"),
        limit: "an origin, or collectives that end together within 100 us".to_string(),
        sentence: format!("no time origin: the times of {who} cannot be compared with those of other ranks"),
        next:
            "keep baseTimeNanoseconds when a tool rewrites or splits the files, or record with PyTorch 2.2 \
               or later"
                .to_string(),
    };
    // Some versions of Kineto write the origin behind the events.
    let ends_early = |r: &&RecordingRow| r.file_end != WHOLE && ranks.contains(&r.rank);
    let cut: Vec<u32> = recorded.ranks.iter().filter(ends_early).map(|r| r.rank).collect();
    limit.behind_cut(&cut).of_all(&[Capability::Ranks, Capability::Transfer])
}
