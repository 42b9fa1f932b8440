//! The causes of a straggler, in words.

use crate::facts::host_activity::HostActivity;
use crate::job::cause::DelayCause;
use crate::job::{Job, TimeUse};
use crate::stragglers::straggler::Straggler;
use crate::stragglers::why::CauseSum;
use hta_base::units::{Ns, fmt_ns, percent};
use hta_base::wording::names::clip;
use std::collections::BTreeMap;

/// The causes worth mentioning: by name if a name explains most, else by kind.
pub fn because(job: &Job, s: &Straggler, causes: &[CauseSum], total: Ns) -> Option<String> {
    let worth = |r: &&CauseSum| percent(r.delta(), total).is_some_and(|p| p >= WORTH_SAYING);
    let said: Vec<&CauseSum> = causes.iter().filter(worth).take(2).collect();
    if said.iter().map(|r| r.delta()).sum::<Ns>() * 2 >= total {
        return Some(said.iter().map(|r| one_cause(job, s, r)).collect::<Vec<_>>().join("; and "));
    }
    let mut kinds: BTreeMap<&'static str, (DelayCause, Ns, Vec<&CauseSum>)> = BTreeMap::new();
    for r in causes {
        let kind = kinds.entry(r.cause.name()).or_insert((r.cause, 0, Vec::new()));
        kind.1 += r.delta();
        if r.delta() > 0 {
            kind.2.push(r);
        }
    }
    let mut kinds: Vec<_> = kinds
        .into_values()
        .filter(|k| percent(k.1, total).is_some_and(|p| p >= WORTH_SAYING / 2.0))
        .collect();
    kinds.sort_by_key(|k| (std::cmp::Reverse(k.1), k.0));
    kinds.truncate(3);
    if kinds.is_empty() {
        return None;
    }
    let several = kinds.iter().map(|k| k.2.len()).sum::<usize>() > 4;
    let of_host = kinds.iter().all(|k| matches!(k.0, DelayCause::Host(_) | DelayCause::MoreHost(_)));
    let list: Vec<String> =
        kinds.iter().map(|(cause, time, of)| kind_of_cause(job, s, *cause, *time, of)).collect();
    let host =
        if of_host && on_device(job, s) { "the device idles while the host spends more time " } else { "" };
    let lead = if of_host && !on_device(job, s) { "it spends more time " } else { host };
    let end =
        if several && of_host { "; no single one stands out: its host is slower as a whole" } else { "" };
    Some(format!("{lead}{}{end}", list.join(", ")))
}

pub(super) fn on_device(job: &Job, s: &Straggler) -> bool {
    s.parts.first().is_some_and(|p| job.parts[*p as usize].lanes.iter().any(|l| l.is_gpu))
}

/// A kind of cause, e.g. `in 61 operators (157 ms, most in `aten::empty`)`.
fn kind_of_cause(job: &Job, s: &Straggler, cause: DelayCause, time: Ns, of: &[&CauseSum]) -> String {
    let time = fmt_ns(time / late_count(s));
    let top = of.first().map(|r| clip(job.names.get(r.name), NAME)).filter(|n| !n.is_empty());
    let n = of.iter().filter(|r| !job.names.get(r.name).is_empty()).count();
    let noun = match cause {
        DelayCause::Host(what) | DelayCause::MoreHost(what) => what.name().replace('_', " "),
        other => other.name().replace('_', " "),
    };
    let what = match n {
        0 => noun,
        1 => format!("in one {noun}"),
        n => format!("in {n} {}", plural_of(&noun)),
    };
    match top {
        Some(top) if n > 1 => format!("{what} ({time}, most in `{top}`)"),
        Some(top) => format!("{what} ({time}: `{top}`)"),
        None => format!("{what} ({time})"),
    }
}

fn plural_of(noun: &str) -> String {
    match noun {
        "python" => "Python functions".to_string(),
        "copies" | "other kernels" => noun.to_string(),
        noun => format!("{noun}s"),
    }
}

fn one_cause(job: &Job, s: &Straggler, r: &CauseSum) -> String {
    let late = late_count(s);
    let more = fmt_ns(r.delta() / late);
    let name = clip(job.names.get(r.name), NAME);
    let detail = job.names.get(r.detail);
    let (own, typical) = (fmt_ns(r.own / late), fmt_ns(r.typical / late));
    let named = if name.is_empty() { "smaller ones together".to_string() } else { format!("`{name}`") };
    let counts = |n: i64| -> String {
        let each = n as f64 / late as f64;
        if (each - each.round()).abs() < 1e-9 { format!("{each:.0}") } else { format!("{each:.1}") }
    };
    match r.cause {
        DelayCause::SlowDevice => {
            let factor = r.own as f64 / r.typical.max(1) as f64;
            format!("all its kernels take {factor:.2} times as long ({more}): a slower device (clocks, heat)")
        }
        DelayCause::SlowKernel => {
            format!("kernel {named} takes {own} instead of {typical}{}", launched(job, s, r))
        }
        DelayCause::OtherKernels if r.own_count > r.typical_count => format!(
            "it runs {} {named} kernels instead of {} ({more} more){}",
            counts(r.own_count),
            counts(r.typical_count),
            launched(job, s, r)
        ),
        DelayCause::OtherKernels => format!("other kernels, {named} ({more} more)"),
        DelayCause::Copies => format!("exposed copies {named} take {own} instead of {typical}"),
        DelayCause::EarlierWait => match r.origin {
            Some(rank) => format!("it was held up for {more} in another group, by rank {rank}"),
            None => format!("it was held up for {more} in another group"),
        },
        DelayCause::EarlierTransfer => format!("transfers of other groups take {own} instead of {typical}"),
        DelayCause::UnmatchedCommunication => format!("unmatched communication takes {more} more"),
        DelayCause::Host(what) | DelayCause::MoreHost(what) => {
            let idle = if on_device(job, s) { "the device idles while the host is" } else { "it is" };
            let at = if detail.is_empty() { String::new() } else { format!(" in `{}`", clip(detail, NAME)) };
            let doing = match what {
                TimeUse::KernelWait => return format!("its kernels start {more} later after their launches"),
                TimeUse::OtherWait => return format!("the device idles {more} longer with work submitted"),
                TimeUse::UnlinkedWait => {
                    return format!("the device idles {more} longer, launches not recorded");
                }
                TimeUse::Host(HostActivity::Untracked) => "in code that was not recorded".to_string(),
                TimeUse::Host(HostActivity::DataLoader) => format!("in the data loader ({named}{at})"),
                TimeUse::Host(HostActivity::SyncCall) => format!("in the synchronizing call {named}{at}"),
                TimeUse::Host(HostActivity::AllocationCall) => format!("in the allocation {named}{at}"),
                TimeUse::Host(HostActivity::LaunchCall) => format!("launching ({named}{at})"),
                _ => format!("in {named}{at}"),
            };
            let often = match r.cause {
                DelayCause::MoreHost(_) if r.own_count > r.typical_count => {
                    let (own, typical) = (counts(r.own_count), counts(r.typical_count));
                    let times = if own == "1" { "once".to_string() } else { format!("{own} times") };
                    format!(", {times} instead of {typical}")
                }
                _ => String::new(),
            };
            format!("{idle} {doing} for {own} instead of {typical}{often}")
        }
    }
}

/// Operator and Python line of a kernel.
fn launched(job: &Job, s: &Straggler, r: &CauseSum) -> String {
    let origin = s.parts.first().and_then(|p| job.parts[*p as usize].origins.get(&r.name));
    let Some(o) = origin else { return String::new() };
    match (job.names.get(o.op), job.names.get(o.frame)) {
        ("", "") => String::new(),
        (op, "") => format!(", launched by `{op}`"),
        ("", frame) => format!(", launched in `{}`", clip(frame, NAME)),
        (op, frame) => format!(", launched by `{op}` in `{}`", clip(frame, NAME)),
    }
}

/// Largest width of a name in a sentence, characters.
const NAME: usize = 60;

/// Smallest share of the excess for a cause to be mentioned, percent.
const WORTH_SAYING: f64 = 20.0;

/// Number of late steps, summed over its late ranks.
pub(super) fn late_count(s: &Straggler) -> i64 {
    s.steps.iter().map(|(_, who)| who.len() as i64).sum::<i64>().max(1)
}
