//! Whether files that claim the same rank are of several engines of one server.
//!
//! Engines that serve requests side by side (data parallel replicas, several groups of tensor parallel
//! workers) number their ranks from 0 each. Two captures of one worker claim one rank as well, and must not
//! be taken for two engines:
//!
//! ```text
//!   engines        pid 11 [recorded     )            captures       pid 11 [recorded )
//!                  pid 12   [recorded     )                         pid 11            [recorded )
//! ```

use crate::run::Request;
use hta_base::units::Span;
use hta_facts::serving_mode::ServingMode;
use hta_read::load::load;
use hta_read::options::LoadOptions;
use hta_read::reading::Spread;
use hta_read::source::ByteCount;
use hta_trace::category::Class;
use hta_trace::content::is_front_end;
use hta_trace::meta::RankSource;
use std::collections::BTreeSet;

/// A process, as its file shows it.
struct ShownProcess {
    /// What it claims in the file.
    rank: Option<u32>,
    host: Option<String>,
    pids: BTreeSet<String>,
    recorded: Span,
}

impl ShownProcess {
    /// One process cannot be recorded twice at a time.
    fn is_other_than(&self, other: &ShownProcess) -> bool {
        let at_once = self.recorded.intersect(other.recorded);
        self.host != other.host || self.pids.is_disjoint(&other.pids) || !at_once.is_empty()
    }
}

/// Reads the files one by one, until one shows that they are not of such a server.
pub(crate) fn of_one_server(request: &Request) -> bool {
    let mut known: Vec<ShownProcess> = Vec::new();
    let options = LoadOptions { memory: request.load.memory, ..LoadOptions::default() };
    for input in request.inputs {
        let Ok(loaded) = load(input, options, Spread::AllCores, &ByteCount::default()) else { continue };
        let (rank, host) = (loaded.meta.rank, loaded.meta.host_name.clone());
        let trace = loaded.into_trace(0, RankSource::Process, input.shown.clone(), &request.options.model);
        if is_front_end(&trace) {
            continue;
        }
        if !ServingMode::of(&trace).is_serving {
            return false;
        }
        let c = &trace.columns;
        let calls =
            (0..c.len()).filter(|&r| matches!(trace.classes.get(r), Some(Class::Runtime | Class::HostOp)));
        let lanes: BTreeSet<u32> = calls.filter_map(|r| c.lane.get(r).copied()).collect();
        let pids = lanes
            .iter()
            .filter_map(|l| c.lanes.get(*l as usize))
            .map(|l| trace.text(l.pid).to_string())
            .collect();
        let process = ShownProcess { rank, host, pids, recorded: trace.recorded };
        if known.iter().any(|k| k.rank == process.rank && !process.is_other_than(k)) {
            return false;
        }
        known.push(process);
    }
    known.len() > 1
}
