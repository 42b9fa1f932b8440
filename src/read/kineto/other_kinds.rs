//! What a file without events is.

use crate::kineto::document::Document;
use crate::kineto::refusal::{EXPORT_HINT, KinetoRefusal};
use hta_trace::recorders::SPEEDSCOPE;

impl Document {
    /// Recognizes other kinds of files by a key, before the whole file is read.
    pub(super) fn known_foreign(&self) -> Option<KinetoRefusal> {
        if self.event_arrays > 0 {
            return None;
        }
        match self.last_key.as_deref() {
            Some("nodes") | Some("rocprofiler-sdk-tool") => Some(self.what_it_is()),
            _ => None,
        }
    }

    pub(super) fn what_it_is(&self) -> KinetoRefusal {
        let has = |key: &str| self.telling.contains(&key);
        if has("nodes") {
            return KinetoRefusal::OtherFormat {
                what: "a PyTorch execution trace (`nodes`)",
                hint: "give the Kineto trace that was recorded with it",
            };
        }
        if has("rocprofiler-sdk-tool") {
            return KinetoRefusal::OtherFormat {
                what: "a rocprofv3 file",
                hint: "record with `torch.profiler` and export a Chrome trace",
            };
        }
        if has("traceEvents") {
            return KinetoRefusal::NoEvents;
        }
        if has("profiles") {
            return KinetoRefusal::OtherFormat { what: SPEEDSCOPE.what, hint: SPEEDSCOPE.hint };
        }
        if self.cut && ["schemaVersion", "deviceProperties", "distributedInfo"].into_iter().any(has) {
            return KinetoRefusal::CutBeforeEvents;
        }
        if self.cut {
            return KinetoRefusal::NotATrace {
                what: "the start of a JSON file, cut before any `traceEvents`",
                hint: "the file may still be being written, or its disk was full: record it again",
            };
        }
        KinetoRefusal::NotATrace { what: "JSON without `traceEvents`", hint: EXPORT_HINT }
    }
}
