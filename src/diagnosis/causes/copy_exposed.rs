//! `copy_exposed`: copies and sets that no kernel hides and that compute waits for.

use crate::account::CellOfStep;
use crate::cause::Cause;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::context::Context;
use crate::lost_words::{LostWords, shown};
use crate::rule::{CauseFamily, CauseRule, LostRule};
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use hta_job::recording::capability::Capability;
use hta_trace::category::Class;
use hta_trace::rules::copy_kind;

pub(super) const RULE: CauseRule = CauseRule {
    name: "copy_exposed",
    certainty: CauseCertainty::AtMost,
    needs: &[Capability::Idle],
    evidence: "other copies and sets while the next kernel is launched already, or the host waits for them",
    owns: "M",
    command: "copies",
    shown_by: "tests/it/analyses/exposed_copies.rs",
    family: CauseFamily::Lost(LostRule {
        key: |name| copy_kind(Class::Memcpy, name),
        // The host has launched what waits, or waits itself: it is no limit.
        saves: |_, _| Ns::MAX,
        words,
        finish: hidden,
        ..LostRule::COPIES
    }),
    ..CauseRule::DEFAULT
};

/// Kernels hide copies from and to the host for no longer than they run.
fn hidden(context: &Context, cause: &mut Cause) {
    let work = |c: &CellOfStep| c.parts.compute + c.parts.waiting + c.parts.transfer + c.parts.unmatched;
    if matches!(cause.key.as_str(), "HtoD" | "DtoH") {
        let steps = context.account.steps.iter();
        let most: Ns = steps.map(|step| step.cells.values().map(work).max().unwrap_or(0)).sum();
        cause.gain = cause.gain.min(most);
    }
}

fn words(w: &LostWords) -> CauseWords {
    let (copies, action) = match w.key {
        "HtoD" => (
            "copies from the host to the device",
            "copy what is needed next on a stream of its own while the GPU computes (prefetch), and let only \
             its first user wait",
        ),
        "DtoH" => (
            "copies from the device to the host",
            "let the copies run beside later kernels: wait for them only where their memory is used again; \
             copy less",
        ),
        "set" => ("sets of memory", "allocate without zeros (empty), or let a kernel write the first value"),
        "unknown" => ("copies", "copy beside kernels on another stream, or copy less"),
        _ => (
            "copies between devices or inside one",
            "write results where they are needed (views, in place), or copy beside kernels on another stream",
        ),
    };
    let (time, share) = (fmt_ns(w.copies), fmt_pct(percent(w.copies, w.step)));
    let waits = match w.top.first() {
        Some(top) if !top.detail.is_empty() => {
            format!("; {} waits for {}", shown(top.detail), shown(top.name))
        }
        Some(top) => format!(", most in {}", shown(top.name)),
        None => String::new(),
    };
    CauseWords::new(
        format!("Compute waits for {copies} that no kernel hides{}", w.who()),
        format!("They take {time}{} ({share}){waits}", w.trust.per_step()),
        action,
    )
}
