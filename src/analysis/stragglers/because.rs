//! The causes of a straggler, in words.

use crate::stragglers::straggler::Straggler;
use crate::stragglers::tables::ranks_of;
use crate::stragglers::why::{StepDifferences, reasons};
use hta_base::units::{Ns, fmt_ns, percent};
use hta_base::wording::names::{built_in, frame_parts, in_sentence};
use hta_facts::host_activity::HostActivity;
use hta_facts::lines::UserCode;
use hta_job::cause::DelayCause;
use hta_job::difference::{Difference, HostDelay};
use hta_job::{Job, TimeUse};
use hta_trace::kernel::short_name;
use std::collections::BTreeMap;

/// Why ranks are late, in words: of all together, or of each group of them that has a reason of its own.
pub fn because(job: &Job, s: &Straggler, why: &[StepDifferences]) -> Option<String> {
    let groups = s.by_reason(why);
    if groups.len() < 2 {
        let (causes, total) = reasons(s, why);
        return of_all(job, s, &causes, total);
    }
    let more = groups.len().saturating_sub(REASONS);
    let of_group = |group: &Straggler| {
        let (causes, total) = reasons(group, why);
        let ranks = job.words.plain(&ranks_of(job, &group.parts));
        Some(format!("{ranks}: {}", of_all(job, group, &causes, total)?))
    };
    let mut said: Vec<String> = groups.iter().take(REASONS).filter_map(of_group).collect();
    said.extend((more > 0).then(|| "the others for other reasons".to_string()));
    Some(said.join("; "))
}

/// Most reasons of ranks that are late together which are told.
const REASONS: usize = 3;

/// The causes worth mentioning: by name if a name explains most, else by kind.
fn of_all(job: &Job, s: &Straggler, causes: &[Difference], total: Ns) -> Option<String> {
    let worth = |r: &&Difference| percent(r.delta(), total).is_some_and(|p| p >= WORTH_SAYING);
    let said: Vec<&Difference> = causes.iter().filter(worth).take(2).collect();
    if total > 0 && said.iter().map(|r| r.delta()).sum::<Ns>() * 2 >= total {
        return Some(said.iter().map(|r| one_cause(job, s, r)).collect::<Vec<_>>().join("; and "));
    }
    let mut kinds: BTreeMap<&'static str, (DelayCause, Ns, Vec<&Difference>)> = BTreeMap::new();
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

/// Where in the user's code the largest cause of a straggler is; empty if it is not recorded.
pub fn place(job: &Job, s: &Straggler, causes: &[Difference]) -> String {
    let Some(first) = causes.first() else { return String::new() };
    let origin = s.parts.first().and_then(|p| job.parts[*p as usize].origins.get(&first.name));
    let code = UserCode::default();
    let user = |id| {
        let (file, line, function) = frame_parts(job.names.get(id)).filter(|f| code.holds(f.0))?;
        Some(format!("{file}:{line} {function}"))
    };
    match first.cause {
        DelayCause::SlowKernel | DelayCause::OtherKernels => {
            origin.map_or(String::new(), |o| job.names.get(o.place).to_string())
        }
        DelayCause::Host(_) | DelayCause::MoreHost(_) => {
            user(first.name).or_else(|| user(first.detail)).unwrap_or_default()
        }
        _ => String::new(),
    }
}

pub(super) fn on_device(job: &Job, s: &Straggler) -> bool {
    s.parts.first().is_some_and(|p| job.parts[*p as usize].lanes.iter().any(|l| l.is_gpu))
}

/// A kind of cause, e.g. `in 61 operators (157 ms, most in `aten::empty`)`.
fn kind_of_cause(job: &Job, s: &Straggler, cause: DelayCause, time: Ns, of: &[&Difference]) -> String {
    let time = fmt_ns(time / late_count(s));
    let top = of.first().map(|r| shown(job.names.get(r.name))).filter(|n| !n.is_empty());
    let n = of.iter().filter(|r| !job.names.get(r.name).is_empty()).count();
    let noun = match cause {
        DelayCause::Host(what) | DelayCause::MoreHost(what) => what.name().replace('_', " "),
        other => other.name().replace('_', " "),
    };
    match cause {
        DelayCause::MoreTokens => return format!("in its experts, which get more tokens ({time})"),
        DelayCause::ExpertTime => return format!("in its experts ({time}; {OPEN_EXPERTS})"),
        DelayCause::HostBehind(_) => return format!("behind its host ({time})"),
        _ => {}
    }
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

fn one_cause(job: &Job, s: &Straggler, r: &Difference) -> String {
    let late = late_count(s);
    let more = fmt_ns(r.delta() / late);
    let name = shown(job.names.get(r.name));
    let detail = job.names.get(r.detail);
    // The other ranks may not do it at all.
    let instead = match r.typical / late {
        0 => "the others not at all".to_string(),
        typical => format!("on the others {}", fmt_ns(typical)),
    };
    let own = fmt_ns(r.own / late);
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
            format!("its kernel {named} takes {own}, {instead}{}", launched(job, s, r))
        }
        DelayCause::OtherKernels if r.own_count > r.typical_count => format!(
            "it runs {} {named} kernels, the others {} ({more} more){}",
            counts(r.own_count),
            counts(r.typical_count),
            launched(job, s, r)
        ),
        DelayCause::OtherKernels => format!("other kernels, {named} ({more} more)"),
        DelayCause::MoreTokens => {
            format!("its experts get more tokens: they take {own}, {instead}")
        }
        DelayCause::ExpertTime => format!("its experts take {own}, {instead}: {OPEN_EXPERTS}"),
        DelayCause::Copies => format!("its copies {named} take {own}, {instead}"),
        DelayCause::EarlierWait => match r.origin {
            Some(rank) => format!("it waited {more} longer in another group, for rank {rank}"),
            None => format!("it waited {more} longer in another group"),
        },
        DelayCause::EarlierTransfer => format!("transfers of other groups take {own}, {instead}"),
        DelayCause::UnmatchedCommunication => format!("unmatched communication takes {more} more"),
        DelayCause::HostBehind(delay) => {
            let host = behind(delay, &name);
            format!("the device idles for {own}, {instead}, because its host {host}")
        }
        DelayCause::Host(what) | DelayCause::MoreHost(what) => {
            let idle = if on_device(job, s) { "the device idles while the host is" } else { "it is" };
            let is_placed = !place(job, s, std::slice::from_ref(r)).is_empty();
            let at = if detail.is_empty() || is_placed {
                String::new()
            } else {
                format!(" in `{}`", shown(detail))
            };
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
                    format!(", {times}, the others {typical}")
                }
                _ => String::new(),
            };
            format!("{idle} {doing} for {own}{often}, {instead}")
        }
    }
}

/// Why a host is behind; `name`: of what it does longer, empty if that is not known.
fn behind(delay: HostDelay, name: &str) -> String {
    let Some(activity) = delay.by else { return "is behind since an earlier step".to_string() };
    let of = if name.is_empty() { String::new() } else { format!(" (`{name}`)") };
    let (takes, before) = if delay.is_earlier { ("took", " before") } else { ("takes", "") };
    format!("{takes} longer in {}{of}{before}", activity.plural())
}

/// Operator and Python line of a kernel.
fn launched(job: &Job, s: &Straggler, r: &Difference) -> String {
    let origin = s.parts.first().and_then(|p| job.parts[*p as usize].origins.get(&r.name));
    let Some(o) = origin else { return String::new() };
    // A place in the user's code is told on its own.
    let frame = if job.names.get(o.place).is_empty() { job.names.get(o.frame) } else { "" };
    match (job.names.get(o.op), frame) {
        ("", "") => String::new(),
        (op, "") => format!("; `{op}` launches it"),
        ("", frame) => format!("; it is launched in {frame}"),
        (op, frame) => format!("; `{op}` launches it in {frame}"),
    }
}

/// A name as it is told: kernels without arguments, frames whole.
fn shown(name: &str) -> String {
    if let Some(function) = built_in(name) {
        return format!("{function}()");
    }
    match frame_parts(name) {
        Some(_) => name.to_string(),
        None => in_sentence(&short_name(name)).to_string(),
    }
}

/// What is said of experts whose sizes are not recorded.
const OPEN_EXPERTS: &str =
    "more tokens or a slower device, which cannot be told without the sizes of the exchanges";

/// Smallest share of the excess for a cause to be mentioned, percent.
const WORTH_SAYING: f64 = 20.0;

/// Number of late steps, summed over its late ranks.
pub(super) fn late_count(s: &Straggler) -> i64 {
    s.steps.iter().map(|(_, who)| who.len() as i64).sum::<i64>().max(1)
}
