//! `host_python`: the device idles while the launching thread runs code outside operators for 200 us and
//! longer.

use crate::account::TimePart;
use crate::cause::Cause;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::context::Context;
use crate::lost_words::{LostWords, shown};
use crate::paced::own_starts;
use crate::rule::{CauseFamily, CauseRule, LostRule, OfHost};
use hta_base::order_statistics::median;
use hta_base::units::{Ns, Span, fmt_ns};
use hta_base::wording::names::frame_parts;
use hta_facts::host_activity::HostActivity;
use hta_facts::vendor::DeviceVendor;
use hta_job::TimeUse;

pub(super) const RULE: CauseRule = CauseRule {
    name: "host_python",
    evidence: "I while the launching thread runs code outside operators for 200 us or longer, is in an event \
               of 1 ms or longer that launches nothing and does not wait for the device, or in an operator \
               for 1 ms without a call",
    owns: "I, S behind it",
    shown_by: "tests/data/causes/host_python.json.gz",
    family: CauseFamily::Lost(LostRule {
        // The code is named when all of it is known; an operator that launches as well stands for itself.
        of_host: OfHost::Any(|host, m| host.is_code(m).then(|| (m.long_operator(), m.code_row()))),
        is_cold: |key| key.is_empty() || key.contains("::"),
        key: |key| key,
        uses: Some(CODE),
        late_by: CODE,
        is_told: |w| w.trust.vendor != DeviceVendor::Host || !w.key.is_empty(),
        words,
        finish,
        tint: Some(4),
        ..LostRule::HOST
    }),
    ..CauseRule::HOST
};

const CODE: &[TimeUse] = &[
    TimeUse::Host(HostActivity::Python),
    TimeUse::Host(HostActivity::Annotation),
    TimeUse::Host(HostActivity::Untracked),
];

fn finish(context: &Context, cause: &mut Cause) {
    cause.words.why.push_str(&growth(context, cause).unwrap_or_default());
    if cause.key.is_empty() {
        // What the code is was not recorded.
        cause.certainty = cause.certainty.max(CauseCertainty::Likely);
    } else if context.trust.vendor == DeviceVendor::Host && frame_parts(&cause.key).is_none() {
        // In a range without operators another thread may compute that was not recorded.
        cause.certainty = CauseCertainty::AtMost;
    }
}

/// Fewest steps that show that something grows.
const GROWING_STEPS: usize = 4;

/// How much longer it takes in the last step than in the first one, if it grows from each step to the next,
/// also behind the middle, and its median doubles from the first third to the last. The first step does not
/// count if the time before it, from which the others begin, does not.
fn growth(context: &Context, cause: &Cause) -> Option<String> {
    let steps = &context.account.steps;
    let mut idle: Vec<Ns> = vec![0; steps.len()];
    for ((s, _, part), ns) in &cause.owned {
        *idle.get_mut(*s)? += if *part == TimePart::Idle { *ns } else { 0 };
    }
    let starts = own_starts(context.job, steps.first()?);
    let second = steps.get(1)?;
    let begins = |window: &Span| Some(window.start) < second.key.and_then(|key| starts.get(&key).copied());
    let is_stretched = second.windows.values().flatten().any(begins);
    let idle = idle.get(usize::from(is_stretched)..)?;
    let of = |part: &[Ns]| median(&mut part.to_vec());
    let third = idle.len() / 3;
    let (early, late) = (of(idle.get(..third)?)?, of(idle.get(idle.len() - third..)?)?);
    let (first, last) = (idle.first()?, idle.last()?);
    let is_late = of(idle)? * 5 <= late * 4 && early * 2 <= late;
    let grows = idle.len() >= GROWING_STEPS && idle.is_sorted() && is_late;
    let at = if is_stretched { "second" } else { "first" };
    let devices = context.devices_of(&cause.ranks);
    let noun = context.trust.step_noun();
    grows.then(|| {
        format!(", {} in the {at} {noun} and {} in the last", fmt_ns(first / devices), fmt_ns(last / devices))
    })
}

/// Most gaps of a recording without steps that may be one first use.
const FEW_GAPS: u64 = 4;

fn named_action(w: &LostWords) -> &'static str {
    let is_range = frame_parts(w.key).is_none();
    let gaps: u64 = w.top.iter().map(|t| t.count).sum();
    match w.trust.vendor {
        DeviceVendor::Host if is_range => "see what other threads do in this range: record all of them",
        _ if is_range && w.step_count == 1 && gaps <= FEW_GAPS => {
            "see whether it takes as long again: what is compiled or loaded at a first use needs a recording \
             after a warm-up; else make this code faster, or do it while the device works"
        }
        _ => "make this code faster, move it to another process, or do it while the device works",
    }
}

/// Who calls a function of many calls.
fn called_by(w: &LostWords) -> String {
    let caller = w.top.first().map_or("", |top| top.detail);
    let function = frame_parts(caller).map_or(caller, |(.., function)| function);
    if function.is_empty() { String::new() } else { format!(", called by `{function}`") }
}

/// Share of the code from which a few places stand for all of it, percent.
const FEW_PCT: f64 = 80.0;

/// The few operators and built-in functions that are nearly all of code without a name.
fn of_few(w: &LostWords) -> Option<String> {
    let mut sum = 0.0;
    let enough = w.inside.iter().position(|(_, share)| {
        sum += share;
        sum >= FEW_PCT
    })?;
    Some(w.inside[..=enough].iter().map(|(name, _)| shown(name)).collect::<Vec<_>>().join(", "))
}

fn words(w: &LostWords) -> CauseWords {
    let (idles, idle) = (w.device_of_ranks("idles"), w.idle());
    match w.key.is_empty() {
        false => CauseWords::new(
            format!("{idles} while the host runs {}{}", shown(w.key), called_by(w)),
            idle,
            named_action(w),
        ),
        true if of_few(w).is_some() => CauseWords::new(
            format!("{idles} while the host runs {}", of_few(w).unwrap_or_default()),
            idle,
            "do this work while the device computes, or in another process",
        ),
        true if w.trust.has_frames => CauseWords::new(
            format!("{idles} while the host runs Python code of many functions"),
            idle,
            "do this work while the device computes, or in another process (hta idle lists the functions)",
        ),
        true => CauseWords::new(
            format!("{idles} while the host runs code outside operators"),
            idle,
            "record with with_stack=True to see which lines; do this work while the device computes",
        ),
    }
}
