//! What the options of `hta memory` mean for snapshots.

use super::content::ContentKey;
use super::history::Until;
use crate::api::Options;
use crate::memory::flame::HeldStacks;
use crate::memory::tables::MemoryContent;
use crate::memory::{AT, BY, DEVICE, MIN_BYTES, STEPS_BY, UNTIL, held_stacks};
use hta_trace::memory_moment::MemoryMoment;

/// What is asked of a snapshot.
#[derive(Debug, Clone, Copy, Default)]
pub struct SnapshotChoice<'a> {
    pub by: ContentKey,
    /// The moment whose content is listed; the peak and the end if none is given.
    pub at: Option<MemoryMoment>,
    /// Only this device.
    pub device: Option<&'a str>,
    pub until: Until,
    /// Start of the names of the annotations that mark steps.
    pub steps_by: Option<&'a str>,
    /// Stacks for a flame graph.
    pub(crate) held: Option<HeldStacks>,
    /// Smallest size of a holder that is printed.
    pub(crate) min_bytes: i64,
    /// Whether holders are listed by stack, too, which are long texts.
    pub by_stack: bool,
}

impl<'a> SnapshotChoice<'a> {
    pub(crate) fn of(options: &'a Options) -> Self {
        let settings = &options.settings;
        let by = settings.text(&BY).filter(|_| settings.is_given(&BY));
        let by = ContentKey::ALL.into_iter().find(|key| Some(key.name()) == by).unwrap_or_default();
        Self {
            by,
            at: settings.is_given(&AT).then(|| settings.moment(&AT)),
            device: settings.text(&DEVICE),
            until: Until::named(settings.text(&UNTIL)),
            steps_by: settings.text(&STEPS_BY),
            held: held_stacks(options),
            min_bytes: i64::try_from(settings.count(&MIN_BYTES)).unwrap_or(i64::MAX),
            by_stack: by == ContentKey::Stack || options.wants(MemoryContent::SPEC),
        }
    }
}
