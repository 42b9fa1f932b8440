//! `iteration_gap`: the device idles between two iterations of an inference engine.

use crate::cause_words::CauseWords;
use crate::lost_words::LostWords;
use crate::rule::{CauseFamily, CauseRule, LostRule};
use hta_base::units::Span;

pub(super) const RULE: CauseRule = CauseRule {
    name: "iteration_gap",
    evidence: "I between two iterations of an engine",
    owns: "that I",
    command: "iterations",
    shown_by: "data/samples/serving",
    family: CauseFamily::Lost(LostRule {
        of_iteration: |_, of, next| {
            next.map(|n| Span::new(of.window.end, n.window.start)).into_iter().collect()
        },
        words,
        tint: Some(5),
        ..LostRule::ITERATION
    }),
    ..CauseRule::HOST
};

fn words(w: &LostWords) -> CauseWords {
    let (where_to, action) = match w.is_mostly_unrecorded() {
        true => (
            format!("most of it where nothing of the host is recorded{}", w.told_part()),
            "record with with_stack=True to see what the host does between iterations",
        ),
        false => (
            format!("most in {}", w.top_name()),
            "do this work while the GPU computes: overlapped (asynchronous) scheduling, less work on results \
             and on the next batch between iterations",
        ),
    };
    CauseWords::new(
        format!("{} for the host between iterations", w.device_of_ranks("waits")),
        format!("{}, {where_to}", w.idle()),
        action,
    )
}
