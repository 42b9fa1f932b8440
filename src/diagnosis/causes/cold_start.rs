//! `cold_start`: devices idle longer in the first steps of the recording than in the others.

use crate::cause::Cause;
use crate::cause_words::CauseWords;
use crate::context::Context;
use crate::first_steps::cold_steps;
use crate::lost_words::LostWords;
use crate::rule::{CauseFamily, CauseRule, LostRule};
use hta_base::order_statistics::median;
use hta_base::units::{Ns, fmt_ns};
use hta_base::wording::counts::plural;

pub(super) const RULE: CauseRule = CauseRule {
    name: "cold_start",
    evidence: "first steps, fewer than half, of 1.5 times the median step, which no later one is, in which \
               three quarters of the devices idle longer than in the other steps, by 25 % of a step",
    owns: "that part of what launching, waiting calls, allocation and code without a name own of I",
    shown_by: "tests/it/analyses/owners.rs",
    family: CauseFamily::Lost(LostRule {
        joins_alike: false,
        words: |w: &LostWords| {
            let action = "record later, after a warm-up of some steps, as schedule(warmup=...) does";
            CauseWords::new("The first steps are cold", w.idle(), action)
        },
        names_parts: |_| false,
        finish,
        ..LostRule::HOST
    }),
    ..CauseRule::HOST
};

fn finish(context: &Context, cause: &mut Cause) {
    let steps = &context.account.steps;
    let (first, others) = steps.split_at(cold_steps(context.account));
    let middle = |of: &[_]| {
        let mut times: Vec<Ns> = of.iter().map(|s: &crate::account::JobStep| s.time).collect();
        fmt_ns(median(&mut times).unwrap_or(0))
    };
    let noun = context.trust.step_noun();
    let (steps, is, takes) = match first.len() {
        1 => (format!("The first {noun}"), "is", "takes"),
        n => (format!("The first {}", plural(n, noun)), "are", "take"),
    };
    cause.is_once = true;
    cause.words.what =
        format!("{steps} {is} cold and {takes} {}, the others {}", middle(first), middle(others));
}
