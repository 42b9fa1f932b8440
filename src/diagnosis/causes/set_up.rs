//! `set_up`: the device idles before the first forward pass of a recording without steps.

use crate::account::TimePart;
use crate::cause_words::CauseWords;
use crate::lost_words::LostWords;
use crate::rule::{CauseFamily, CauseRule, LostRule};

pub(super) const RULE: CauseRule = CauseRule {
    name: "set_up",
    evidence: "I and M before the first forward pass (a range with this word, or the call of a module), \
               backward pass or optimizer step of a recording without steps, if that takes 10 % of it and \
               holds at most 5 % of the compute beside the initialisation of weights",
    owns: "that I and M",
    shown_by: "tests/it/analyses/owners.rs",
    family: CauseFamily::Lost(LostRule {
        joins_alike: false,
        words: |w: &LostWords| {
            let what =
                format!("{} during set-up, before the first forward pass, once", w.device_of_ranks("idles"));
            CauseWords::new(what, w.idle(), "nothing: record from the first step on")
        },
        names_parts: |_| false,
        // It is no part of a step.
        finish: |_, cause| {
            (cause.gain, cause.is_once) = (0, true);
            if cause.owned_part(TimePart::Copies) > 0 {
                let what = cause.words.what.replacen(" during", " (or only copies run) during", 1);
                cause.words.what = what;
            }
        },
        ..LostRule::HOST
    }),
    ..CauseRule::HOST
};
