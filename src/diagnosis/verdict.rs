//! The verdict: two sentences that can be read aloud, and the causes with evidence, place and action.

use crate::CauseKind;
use crate::account::{JobAccount, TimePart};
use crate::cause::{Cause, finding_id};
use crate::certainty::CauseCertainty;
use crate::diagnose::Diagnosis;
use crate::host_operators;
use crate::only_copies;
use crate::open_books;
use crate::paced;
use crate::recorded_time::OutsideSteps;
use crate::rule::LISTED_PCT;
use crate::trust::RecordingTrust;
use hta_analysis::verdict::{JobTotals, JobVerdict, ToldCause};
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::{capital, plural, uncapital};
use hta_base::wording::ranks::ranks_named;
use hta_facts::vendor::DeviceVendor;
use hta_job::recording::capability::{Capability, Grade};
use hta_job::recording::limit::Limit;
use hta_job::recording::rules::{COUNTERS_ONLY, FUSED_COMMUNICATION, MISSING_RANKS, NOT_RECORDED};
use hta_trace::kernel::category::Category;

/// Largest number of causes in the verdict.
const CAUSES: usize = 5;

/// Whether a cause is in the verdict.
pub(crate) fn is_listed(cause: &Cause, account: &JobAccount) -> bool {
    if cause.kind.memory().is_some() {
        return true;
    }
    let is_large = percent(cause.gain, account.length).is_some_and(|p| p >= cause.kind.rule().listed_pct);
    if cause.is_withheld() { cause.kind == CauseKind::InputIncomplete } else { is_large }
}

pub(crate) fn verdict(found: &Diagnosis, outside: OutsideSteps) -> JobVerdict {
    let account = &found.account;
    if account.steps.is_empty() && found.causes.is_empty() {
        return JobVerdict::default();
    }
    let listed: Vec<&Cause> = found.causes.iter().filter(|c| is_listed(c, account)).collect();
    // Causes about memory gain no time, and are told beside the largest ones that do.
    let (of_memory, of_time): (Vec<&Cause>, Vec<&Cause>) =
        listed.iter().copied().partition(|c| c.kind.memory().is_some());
    let shown =
        |c: &&&Cause| c.kind.memory().is_some() || of_time.iter().take(CAUSES).any(|t| std::ptr::eq(*t, **c));
    let causes: Vec<ToldCause> =
        listed.iter().filter(shown).map(|c| told(c, account, &found.trust)).collect();
    let withheld = found.causes.iter().filter(|c| c.is_withheld() && c.kind != CauseKind::InputIncomplete);
    let withheld = withheld.count();
    let lines = sentences(found, &causes, outside.uncounted.as_deref());
    let (lines, unproven) = with_unproven(found, &causes, lines);
    let mut notes = outside.notes;
    notes.extend(outside.uncounted.filter(|_| !causes.is_empty()).map(|between| uncapital(&between)));
    notes.extend(open_books::note(found).filter(|_| !causes.is_empty()));
    notes.extend(open_books::fused(found).map(|f| f.sentence).filter(|f| !lines[0].starts_with(f.as_str())));
    let why_left_out = found.trust.recording.why_left_out();
    if let Some(limit) = why_left_out {
        let ranks: Vec<u32> = found.trust.recording.left_out().into_iter().collect();
        let are = if ranks.len() == 1 { "is" } else { "are" };
        notes.push(format!(
            "{} {are} left out of all shares and sums: {}",
            ranks_named(&ranks),
            limit.sentence
        ));
        notes.push(format!("to tell about {} too: {}", ranks_named(&ranks), limit.next));
    }
    let is_told = listed.first().is_some_and(|c| c.kind == CauseKind::InputIncomplete);
    if withheld > 0 && !is_told {
        notes.push(format!(
            "{} withheld, because the recording does not support {} (table findings)",
            plural(withheld, "cause"),
            if withheld == 1 { "it" } else { "them" }
        ));
    }
    if found.trust.is_serving && !causes.is_empty() && account.all() > 0 && why_left_out.is_none() {
        notes.insert(0, busy(found));
    }
    notes.extend(saves_nothing(found, &lines[0]));
    notes.extend(unproven.iter().cloned());
    notes.extend(found.trust.setups.iter().cloned());
    let more = (listed.len() - of_memory.len()).saturating_sub(CAUSES);
    let gains = |is_once: bool| {
        let trusted = found.causes.iter().filter(|c| !c.is_withheld() && c.is_once == is_once);
        trusted.map(|c| (c.kind.name(), percent(c.gain, account.length).unwrap_or(0.0))).collect()
    };
    JobVerdict {
        lines,
        headline: None,
        energy: None,
        recorded: recorded(found, &listed),
        causes,
        more,
        notes,
        gains: gains(false),
        once: gains(true),
        totals: totals(account),
        mix: mix(account),
        operators: host_operators::largest(&found.operators),
    }
}

/// Begins with a rank that may be late by chance, if it is late by more than the first cause saves; and those
/// that are left for the remarks.
fn with_unproven<'a>(
    found: &'a Diagnosis,
    causes: &[ToldCause],
    [what, shows]: [String; 2],
) -> ([String; 2], &'a [String]) {
    let gains =
        |c: &Cause| percent(c.gain, found.account.length).is_some_and(|pct| pct >= found.unproven_pct);
    let first = found.causes.iter().find(|c| is_listed(c, &found.account));
    let saves_more = first.is_some_and(|c| has_no_gain(c) || gains(c));
    match found.unproven.split_first() {
        Some((first, others)) if !saves_more => {
            ([format!("{}.", capital(first)), if causes.is_empty() { shows } else { what }], others)
        }
        _ => ([what, shows], &found.unproven),
    }
}

/// Causes that own much time, of which no fix surely saves any, beside one that the first sentence tells.
fn saves_nothing(found: &Diagnosis, first: &str) -> Option<String> {
    let account = &found.account;
    let is_one = |c: &&Cause| {
        !c.is_withheld()
            && c.kind.memory().is_none()
            && !is_listed(c, account)
            && !first.starts_with(&c.words.what)
            && percent(c.owned_sum(), account.all()).is_some_and(|p| p >= LISTED_PCT)
    };
    let saves = |c: &Cause| c.gain > 0 && c.certainty() != CauseCertainty::AtMost;
    let told = |c: &&Cause| {
        let share = fmt_pct(percent(c.owned_sum(), account.all()));
        let each = fmt_ns(c.gain / account.steps.len().max(1) as Ns);
        let saved = match saves(c) {
            true => {
                format!(
                    ", saves {each}{} or {}",
                    found.trust.per_step(),
                    fmt_pct(percent(c.gain, account.length))
                )
            }
            false => String::new(),
        };
        format!("{} ({share} of the time{saved})", uncapital(&c.words.what))
    };
    let all: Vec<&Cause> = found.causes.iter().filter(is_one).collect();
    let lead = if all.iter().any(|c| saves(c)) { "little time is saved" } else { "no time is surely saved" };
    (!all.is_empty()).then(|| format!("{lead}: {}", all.iter().map(told).collect::<Vec<_>>().join("; ")))
}

/// Share of a recording that is in no share from which this is told, percent.
const IN_NO_SHARE_PCT: f64 = 2.0;

/// The largest part of a recording that no device's account holds: the device still ran what was launched
/// before, or what it ran at the end is not recorded.
fn in_no_share(found: &Diagnosis) -> Option<String> {
    let all = found.trust.recording.ranks().filter_map(|r| {
        let whole = r.recorded_end_ns - r.recorded_start_ns;
        Some((percent(whole - r.recorded_ns, whole)?, r.lead_ns * 2 >= whole - r.recorded_ns))
    });
    let (share, is_lead) = all.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(p, _)| *p >= IN_NO_SHARE_PCT)?;
    let at_most = if found.trust.present > 1 { "at most " } else { "" };
    let why = match is_lead {
        true => "is work launched before the file begins",
        false => "lies behind the last recorded activity",
    };
    Some(format!("{at_most}{} of the file {why}, and is in no share", fmt_pct(Some(share))))
}

/// Why the verdict is not to be trusted in full; `None` if it is.
fn doubt(found: &Diagnosis, listed: &[&Cause]) -> Option<String> {
    let of_cause = listed.iter().find_map(|c| c.trust.reason());
    let recording = &found.trust.recording;
    let withheld = || {
        let worst = recording.worst(&[
            Capability::DeviceTime,
            Capability::Idle,
            Capability::Ranks,
            Capability::Steps,
        ]);
        worst.filter(|l| l.grade == Grade::Withheld)
    };
    // Where no cause says so itself.
    let bound = || recording.worst(&[Capability::DeviceTime, Capability::Idle]).filter(|_| listed.is_empty());
    // Those that are missing may make the others wait for longer than any cause that is known.
    let missing = || {
        let unmatched = percent(found.account.sum(TimePart::Unmatched), found.account.all());
        recording.reason(Capability::Ranks).filter(|_| unmatched.is_some_and(|p| p >= LISTED_PCT))
    };
    let left_out = || recording.why_left_out();
    let fused = || recording.limits().iter().find(|l| l.rule == FUSED_COMMUNICATION);
    let first = left_out().or_else(withheld).or_else(missing).or_else(bound).or_else(fused);
    let of_recording = || first.map(|l| l.sentence.clone());
    // What is withheld rests on something that was not recorded well enough.
    let of_withheld = || found.causes.iter().find_map(|c| c.is_withheld().then(|| c.trust.reason())?);
    let of_withheld = || of_withheld().map(str::to_string);
    let reason = of_cause.map(str::to_string).or_else(of_recording).or_else(of_withheld);
    let all: Vec<String> = reason.into_iter().chain(in_no_share(found)).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn totals(account: &JobAccount) -> JobTotals {
    let sum = |part| account.sum(part);
    let factors = account.factors;
    JobTotals {
        device_count: account.devices,
        step_count: account.steps.len() as u32,
        time_ns: account.time,
        length_ns: account.length,
        longest_step_ns: account.steps.iter().map(|s| s.time).max().unwrap_or(0),
        compute_ns: sum(TimePart::Compute),
        fused_ns: sum(TimePart::Fused),
        waiting_ns: sum(TimePart::Waiting),
        transfer_ns: sum(TimePart::Transfer),
        unmatched_ns: sum(TimePart::Unmatched),
        copies_ns: sum(TimePart::Copies),
        idle_ns: sum(TimePart::Idle),
        finished_early_ns: sum(TimePart::FinishedEarly),
        parallel_efficiency: factors.map(|f| f.parallel),
        load_balance: factors.map(|f| f.load_balance),
        communication_efficiency: factors.map(|f| f.communication),
        orchestration_efficiency: factors.map(|f| f.orchestration),
    }
}

/// Shares of compute by category, the largest first, percent.
fn mix(account: &JobAccount) -> Vec<(String, f64)> {
    let all = account.mix();
    let total: Ns = all.values().map(|m| m.time).sum();
    let mut shares: Vec<(&str, Ns)> =
        all.iter().map(|(name, m)| (*name, m.time)).filter(|(_, ns)| *ns > 0).collect();
    shares.sort_by_key(|(name, ns)| (std::cmp::Reverse(*ns), *name));
    shares.into_iter().map(|(name, ns)| (name.replace('_', " "), percent(ns, total).unwrap_or(0.0))).collect()
}

fn told(cause: &Cause, account: &JobAccount, trust: &RecordingTrust) -> ToldCause {
    let first = cause.evidence.first();
    let time = saved(cause, account, trust);
    ToldCause {
        finding_id: finding_id(cause),
        kind: cause.kind.name(),
        ranks: cause.ranks.clone(),
        sentence: cause.words.what.clone(),
        detail: cause.words.why.clone(),
        place: cause.place.clone(),
        saved: if cause.is_once { String::new() } else { time.clone() },
        once: if cause.is_once { time } else { String::new() },
        saved_pct: percent(cause.gain, account.length).filter(|_| !cause.is_once).unwrap_or(0.0),
        evidence: first.map_or(String::new(), |e| e.words.clone()),
        action: cause.words.action.clone(),
        command: cause.kind.rule().command,
        reason: cause.trust.reason().map(str::to_string),
        certainty: cause.certainty().name(),
    }
}

/// Whether a cause is not about time.
fn has_no_gain(cause: &Cause) -> bool {
    cause.kind == CauseKind::InputIncomplete || cause.kind.memory().is_some()
}

/// What fixing a cause saves, or it takes once: `5.50 ms of 19.3 ms a step (28.4 %)`; empty if no time.
pub(super) fn saved(cause: &Cause, account: &JobAccount, trust: &RecordingTrust) -> String {
    if has_no_gain(cause) {
        return String::new();
    }
    let steps = account.steps.len().max(1) as Ns;
    format!(
        "{} of {}{} ({})",
        fmt_ns(cause.gain / steps),
        fmt_ns(account.step_time()),
        trust.per_step(),
        fmt_pct(percent(cause.gain, account.length))
    )
}

/// What costs most and what fixing it saves; then the numbers that show it, and where it is.
fn sentences(found: &Diagnosis, causes: &[ToldCause], between: Option<&str>) -> [String; 2] {
    // Where not even a launch of a device that the file names is recorded, or only its counters, nothing is
    // told of it, whatever the host does.
    let limit = found.trust.recording.reason(Capability::DeviceTime);
    let is_counted = |l: &Limit| l.rule == COUNTERS_ONLY && found.trust.vendor == DeviceVendor::Host;
    let is_unseen = |l: &Limit| match causes.is_empty() {
        true => l.rule == NOT_RECORDED || is_counted(l),
        false => l.rule == NOT_RECORDED && l.grade == Grade::AtMost,
    };
    if let Some(limit) = limit.filter(|l| is_unseen(l)) {
        let what = format!("Cannot tell where the time of the GPU goes: {}.", limit.sentence);
        return [what, format!("{}.", busy(found))];
    }
    let Some(first) = causes.first() else {
        let special = found.paced.map(paced::words).or_else(|| only_copies::alone(&found.account));
        let open = || open_books::largest(found).map(|open| open.sentence);
        let first = special.or_else(|| between.map(str::to_string)).or_else(open);
        let of = if in_no_share(found).is_some() { "the time that is in a share" } else { "the time" };
        let first = first.unwrap_or_else(|| format!("No single fix saves 2 % of {of}"));
        return [format!("{first}."), format!("{}.", busy(found))];
    };
    let saves = match (first.saved.as_str(), first.certainty) {
        ("", _) if first.once.is_empty() => String::new(),
        ("", _) => format!(" A recording without it is shorter by {}.", first.once),
        (saved, "likely") => format!(" Fixing it likely saves {saved}."),
        (saved, "at most") => format!(" Fixing it saves at most {saved}."),
        (saved, _) => format!(" Fixing it saves {saved}."),
    };
    let shows = match (first.detail.as_str(), first.place.as_str()) {
        ("", "") => format!("To do: {}.", first.action),
        ("", place) => format!("It is in {place}."),
        (detail, place) => {
            // Names of functions are told with their file and line.
            let line = place.split(' ').next().unwrap_or_default();
            let is_told = place.is_empty() || detail.contains(line) || first.sentence.contains(line);
            // The place is that of the first sentence.
            let (numbers, more) = detail
                .split_once(". ")
                .map_or((detail, String::new()), |(numbers, more)| (numbers, format!(" {more}.")));
            if is_told { format!("{detail}.") } else { format!("{numbers}: {place}.{more}") }
        }
    };
    [format!("{}.{saves}", first.sentence), shows]
}

/// What is to be said of the recording, if not everything is there.
fn recorded(found: &Diagnosis, listed: &[&Cause]) -> String {
    // The verdict itself says what is missing.
    if listed.first().is_some_and(|c| c.kind == CauseKind::InputIncomplete) {
        return "not enough for a diagnosis".to_string();
    }
    let is_whole = found.trust.recording.left_out().is_empty()
        && found.trust.recording.limits().iter().all(|l| l.rule != MISSING_RANKS);
    match (doubt(found, listed), is_whole) {
        (None, true) => "all that the diagnosis needs".to_string(),
        (Some(reason), true) => reason,
        (None, false) => who(found),
        // The reason is that ranks are missing, and says which.
        (Some(reason), false) if is_of_missing(found, &reason) => reason,
        (Some(reason), false) => format!("{}; {reason}", who(found)),
    }
}

/// Whether a reason names all ranks that the verdict lacks.
fn is_of_missing(found: &Diagnosis, reason: &str) -> bool {
    let recording = &found.trust.recording;
    let mut missing = recording.limits().iter().filter(|l| l.rule == MISSING_RANKS);
    recording.left_out().is_empty() && missing.any(|l| l.sentence == reason)
}

/// The busy share of the devices, and what most of their compute is.
fn busy(found: &Diagnosis) -> String {
    let account = &found.account;
    let busy = account.all() - account.sum(TimePart::Idle) - account.sum(TimePart::FinishedEarly);
    let busy = fmt_pct(percent(busy, account.all()));
    let mix = mix(account);
    let of_mix = mix
        .first()
        .filter(|(name, _)| name != Category::Unknown.name())
        .map_or(String::new(), |(name, pct)| format!("; {name} is {} of the compute", fmt_pct(Some(*pct))));
    if found.trust.vendor == DeviceVendor::Host {
        // A host that waits for a message is blocked, and does nothing.
        let share = percent(account.sum(TimePart::Compute), account.all());
        return format!("The CPU computes {} of the time", fmt_pct(share));
    }
    let what = if account.devices == 1 {
        "The GPU is".to_string()
    } else {
        format!("The {} devices are", account.devices)
    };
    let during = match found.trust.has_iterations {
        true => format!(" in {}", plural(account.steps.len(), "iteration")),
        false => String::new(),
    };
    if only_copies::alone(account).is_some() {
        return format!("Copies run {busy} of the time{during}");
    }
    format!("{what} busy {busy} of the time{during}{of_mix}")
}

/// The ranks that the verdict is about, and those that it lacks.
fn who(found: &Diagnosis) -> String {
    let recording = &found.trust.recording;
    let (present, left_out) = (found.trust.present as usize, recording.left_out().len());
    let missing = recording.limits().iter().find(|l| l.rule == MISSING_RANKS);
    let missing = missing.map_or(String::new(), |l| format!(" ({})", l.measured));
    match left_out {
        0 => format!("{}{missing}", plural(present, "rank")),
        _ => format!("{} of {}{missing}", present - left_out, plural(present, "rank")),
    }
}
