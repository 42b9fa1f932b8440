//! Whether the account is closed: "no fix saves much" is true only if next to all time is compute or has an
//! owner that is told. Else the first sentence is what is missing.

use crate::CauseKind;
use crate::account::TimePart;
use crate::cause::Cause;
use crate::collected::key_of;
use crate::diagnose::Diagnosis;
use crate::only_copies;
use crate::rule::LISTED_PCT;
use hta_base::units::{Ns, fmt_pct, percent};
use hta_base::wording::counts::uncapital;
use hta_job::recording::rules::fused_share;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Share of the time that no cause owns from which the verdict says so, percent.
const UNEXPLAINED_PCT: f64 = 10.0;

/// What the account lacks, the largest first: in words, and its share of the time, percent.
pub(super) struct OpenItem {
    pub(super) sentence: String,
    share: f64,
}

/// The largest share of the time that has no owner which is told, from where "no fix saves much" is not
/// known. `None` if the books are closed.
pub(super) fn largest(found: &Diagnosis) -> Option<OpenItem> {
    let large = unowned(found).into_iter().filter(|(_, share)| *share >= LISTED_PCT);
    let missing = large.filter_map(|(part, share)| item(found, part, share)).chain(withheld(found));
    let all = missing.chain(set_up(found)).chain(fused(found));
    all.max_by(|a, b| a.share.total_cmp(&b.share))
}

/// The share of fused kernels, of which it is open how far they compute.
pub(super) fn fused(found: &Diagnosis) -> Option<OpenItem> {
    let account = &found.account;
    let share = fused_share(account.sum(TimePart::Fused), account.all())?;
    let sentence = format!(
        "{} of the time is in fused kernels; what of it is exchange or waiting cannot be told",
        fmt_pct(Some(share))
    );
    Some(OpenItem { sentence, share })
}

/// That much of the time has no owner, with its parts; `None` if it is less.
pub(super) fn note(found: &Diagnosis) -> Option<String> {
    let mut all = unowned(found);
    let share = all.iter().map(|(_, share)| share).sum::<f64>();
    all.retain(|(_, share)| *share >= LISTED_PCT);
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let part = |(part, share): &(TimePart, f64)| {
        let about = about(found).filter(|_| *part == TimePart::Idle);
        let about = about.map_or(String::new(), |key| format!(" while the host is in `{key}`"));
        format!("{} {}{about}", part.name().replace('_', " "), fmt_pct(Some(*share)))
    };
    let parts = all.iter().map(part).collect::<Vec<_>>().join(", ");
    (share > UNEXPLAINED_PCT).then(|| {
        format!("{} of the time is lost without a cause that a rule knows: {parts}", fmt_pct(Some(share)))
    })
}

/// The shares of the lost time that no cause owns, withheld or not, percent.
fn unowned(found: &Diagnosis) -> Vec<(TimePart, f64)> {
    let account = &found.account;
    // Where only copies run, they are the work.
    let work = if only_copies::alone(account).is_some() { TimePart::Copies } else { TimePart::Compute };
    let share = |part| {
        let owned: Ns = found.causes.iter().map(|c| c.owned_part(part)).sum();
        Some((part, percent(account.sum(part) - owned, account.all())?))
    };
    TimePart::ALL
        .into_iter()
        .filter(|part| ![work, TimePart::Fused].contains(part))
        .filter_map(share)
        .collect()
}

/// The time of a part that no cause owns; what is withheld is told as such.
fn item(found: &Diagnosis, part: TimePart, share: f64) -> Option<OpenItem> {
    let pct = fmt_pct(Some(share));
    let sentence = match part {
        TimePart::Idle => match about(found) {
            Some(key) => {
                format!(
                    "Nothing runs {pct} of the time while the host is in `{key}`, and no rule knows a cause"
                )
            }
            None => format!("Nothing runs {pct} of the time, and no rule knows a cause"),
        },
        TimePart::Copies => format!("Copies that no compute hides run {pct} of the time"),
        TimePart::Transfer => format!("Communication that no compute hides runs {pct} of the time"),
        TimePart::Waiting => {
            format!("Ranks wait {pct} of the time for others in collectives, and none is surely late")
        }
        TimePart::Unmatched => {
            format!("Communication whose calls have no match on other ranks runs {pct} of the time")
        }
        TimePart::FinishedEarly => {
            format!("Ranks have ended their step before the slowest one {pct} of the time")
        }
        TimePart::Compute | TimePart::Fused => return None,
    };
    Some(OpenItem { sentence, share })
}

/// The set-up, which no fix of a step saves.
fn set_up(found: &Diagnosis) -> Option<OpenItem> {
    let cause = found.causes.iter().find(|c| c.kind == CauseKind::SetUp && !c.is_withheld())?;
    let share = percent(cause.owned_sum(), found.account.all()).filter(|p| *p >= LISTED_PCT)?;
    Some(OpenItem { sentence: format!("{}: {} of the time", cause.words.what, fmt_pct(Some(share))), share })
}

/// What the host runs in most of the idle time that nobody owns.
fn about(found: &Diagnosis) -> Option<String> {
    let owned = |kind, key: &str| found.causes.iter().any(|c| c.kind == kind && c.key == key);
    let mut names: BTreeMap<&str, Ns> = BTreeMap::new();
    for (_, _, cell) in found.account.cells() {
        for l in cell.lost.iter().filter(|l| l.part == TimePart::Idle && !owned(l.kind, key_of(l))) {
            *names.entry(&l.key).or_default() += l.time;
        }
    }
    let all: Ns = names.values().sum();
    let (key, most) = names.into_iter().max_by_key(|(key, ns)| (*ns, Reverse(*key)))?;
    (!key.is_empty() && most * 2 > all).then(|| key.to_string())
}

/// The largest cause that the recording does not support.
fn withheld(found: &Diagnosis) -> Option<OpenItem> {
    let account = &found.account;
    let share = |c: &Cause| {
        let gain = percent(c.gain, account.length).unwrap_or(0.0);
        gain.max(percent(c.owned_sum(), account.all()).unwrap_or(0.0))
    };
    let all = found.causes.iter().filter(|c| c.is_withheld()).map(|c| (c, share(c)));
    let (cause, share) = all.filter(|(_, p)| *p >= LISTED_PCT).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let reason = cause.trust.reason().unwrap_or_default();
    let sentence = format!(
        "Cannot tell whether {} ({} of the time): {reason}",
        uncapital(&cause.words.what),
        fmt_pct(Some(share))
    );
    Some(OpenItem { sentence, share })
}
