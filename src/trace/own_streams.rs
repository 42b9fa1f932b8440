//! Numbers the streams of each process in the order in which activities run on them.

use crate::activity::Activity;
use crate::events::Columns;
use crate::strings::StrId;
use hashbrown::HashMap;

/// A device, its stream and the process that launches there.
type OwnStream = (Option<i64>, Option<i64>, StrId);

#[derive(Debug, Default)]
pub(crate) struct OwnStreams {
    numbers: HashMap<OwnStream, usize>,
    /// Consecutive activities mostly belong to one stream.
    last: Option<(OwnStream, usize)>,
}

impl OwnStreams {
    /// The number of an activity's stream. The first one is 0, and a new one is one more than the largest.
    pub(crate) fn number(&mut self, a: &Activity, c: &Columns) -> usize {
        let caller = a.launch().and_then(|row| c.lanes.get(c.lane[row as usize] as usize));
        let id = (a.device(), a.stream(), caller.map_or(StrId::EMPTY, |lane| lane.pid));
        if let Some((_, number)) = self.last.filter(|last| last.0 == id) {
            return number;
        }
        let next = self.numbers.len();
        let number = *self.numbers.entry(id).or_insert(next);
        self.last = Some((id, number));
        number
    }
}
