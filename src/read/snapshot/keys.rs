//! The texts that a snapshot is known by: keys of its dicts, actions, states and stages. They are interned
//! first, in this order, so that comparing one is comparing a number.

use hta_trace::snapshot::Action;
use hta_trace::strings::{Interner, StrId};

macro_rules! known {
    ($($name:ident = $text:literal;)+) => {
        known!(@number 1u32; $($name = $text;)+);

        /// An interner that holds the known texts.
        pub fn interner() -> Interner {
            let mut texts = Interner::default();
            for text in [$($text),+] {
                texts.intern(text);
            }
            texts
        }

        #[cfg(test)]
        const ALL: &[(StrId, &str)] = &[$(($name, $text)),+];
    };
    (@number $n:expr; $name:ident = $text:literal; $($rest:tt)*) => {
        pub const $name: StrId = StrId($n);
        known!(@number $n + 1; $($rest)*);
    };
    (@number $n:expr;) => {};
}

known! {
    ACTION = "action";
    ADDR = "addr";
    SIZE = "size";
    STREAM = "stream";
    TIME_US = "time_us";
    FRAMES = "frames";
    DEVICE_FREE = "device_free";
    CATEGORY = "category";
    COMPILE_CONTEXT = "compile_context";
    USER_METADATA = "user_metadata";
    NOT_KNOWN = "N/A";
    FILENAME = "filename";
    LINE = "line";
    NAME = "name";
    ADDRESS = "address";
    REQUESTED_SIZE = "requested_size";
    STATE = "state";
    HISTORY = "history";
    REAL_SIZE = "real_size";
    DEVICE = "device";
    TOTAL_SIZE = "total_size";
    ALLOCATED_SIZE = "allocated_size";
    SEGMENT_TYPE = "segment_type";
    SEGMENT_POOL_ID = "segment_pool_id";
    IS_EXPANDABLE = "is_expandable";
    BLOCKS = "blocks";
    STAGE = "stage";
    SEGMENTS = "segments";
    DEVICE_TRACES = "device_traces";
    ALLOCATOR_SETTINGS = "allocator_settings";
    HOST_SEGMENTS = "host_segments";
    HOST_TRACES = "host_traces";
    ENTRIES = "entries";
    PG_CONFIG = "pg_config";
    SMALL = "small";
    LARGE = "large";
    START = "START";
    ACTIVE_ALLOCATED = "active_allocated";
    ACTIVE_PENDING_FREE = "active_pending_free";
    ACTIVE_AWAITING_FREE = "active_awaiting_free";
    INACTIVE = "inactive";
    ALLOC = "alloc";
    FREE_REQUESTED = "free_requested";
    FREE_COMPLETED = "free_completed";
    SEGMENT_ALLOC = "segment_alloc";
    SEGMENT_FREE = "segment_free";
    SEGMENT_MAP = "segment_map";
    SEGMENT_UNMAP = "segment_unmap";
    OOM = "oom";
    SNAPSHOT = "snapshot";
    ANNOTATE = "annotate";
}

/// What an entry of the history says.
pub(super) fn action(text: StrId) -> Action {
    match text {
        ALLOC => Action::Alloc,
        FREE_REQUESTED => Action::FreeRequested,
        FREE_COMPLETED => Action::FreeCompleted,
        SEGMENT_ALLOC => Action::SegmentAlloc,
        SEGMENT_FREE => Action::SegmentFree,
        SEGMENT_MAP => Action::SegmentMap,
        SEGMENT_UNMAP => Action::SegmentUnmap,
        OOM => Action::Oom,
        SNAPSHOT => Action::Snapshot,
        ANNOTATE => Action::Annotate,
        _ => Action::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_text_has_the_number_of_its_constant() {
        let texts = interner();
        assert_eq!(texts.len(), ALL.len() + 1);
        for (id, text) in ALL {
            assert_eq!(texts.get(*id), *text);
        }
    }
}
