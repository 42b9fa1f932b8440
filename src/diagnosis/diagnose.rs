//! Makes the causes of a job from what each owns: with gain, trust and words, the most important first.

use crate::CauseKind;
use crate::account::{JobAccount, TimePart};
use crate::cause::{Cause, GainBasis};
use crate::certainty::CauseCertainty;
use crate::clocks::JobClocks;
use crate::collected::{CauseKey, CollectedCause};
use crate::compilers::{AGAIN, Compiler, compiler_shown};
use crate::contention;
use crate::context::Context;
use crate::gain::OwnedTime;
use crate::grouping::Topology;
use crate::host_operators;
use crate::late;
use crate::late_ranks::LateRank;
use crate::memory;
use crate::mix_causes;
use crate::owners::owners;
use crate::paced;
use crate::paused;
use crate::pauses::HostPauses;
use crate::repair::Repairs;
use crate::rule::{CauseFamily, LostPlace};
use crate::sampled_evidence;
use crate::trust::{RecordingTrust, Trust};
use hta_analysis::api::{Options, Partial, rows};
use hta_analysis::efficiency::account::PartDevice;
use hta_base::units::{Ns, fmt_ns, percent};
use hta_facts::vendor::DeviceVendor;
use hta_job::Job;
use hta_job::recording::Recording;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The account of a job with the owner of every piece, and the causes.
pub(crate) struct Diagnosis {
    pub(crate) account: JobAccount,
    /// The best first.
    pub(crate) causes: Vec<Cause>,
    pub(crate) trust: RecordingTrust,
    pub(crate) topology: Topology,
    /// Own time of the operators of a job without devices by name, and of all others together under the empty
    /// name, ns.
    pub(crate) operators: BTreeMap<String, Ns>,
    /// Period of a loop that a clock drives, ns.
    pub(crate) paced: Option<Ns>,
    /// Ranks that may be late by chance, in words.
    pub(crate) unproven: Vec<String>,
    /// By how much the first of them is late, percent of a step.
    pub(crate) unproven_pct: f64,
}

pub(crate) fn diagnose(job: &Job, partials: &[Partial], options: &Options) -> Diagnosis {
    // Before the account: to find who is late takes the most memory.
    let clocks = JobClocks::new(job, partials);
    let late = late::find(job, options, &clocks);
    let mut account = JobAccount::new(job, partials);
    paused::unite(job, partials, &mut account);
    let trust = RecordingTrust::of(Recording::of_job(job));
    let topology = Topology::of(job);
    let mut all = owners(job, &account, &late);
    let pauses = pauses_by_name(partials);
    let repairs = Repairs::new(job, partials, paused::causes_of_ranks(job, &all));
    let context = Context {
        job,
        account: &account,
        trust: &trust,
        topology: &topology,
        pauses: &pauses,
        repairs: &repairs,
        clocks: &clocks,
        late: &late,
    };
    let mut causes: Vec<Cause> = late.stragglers.iter().map(|s| context.straggler(s, &mut all)).collect();
    let mut in_transfer = OwnedTime::new();
    for ((kind, key), found) in &all {
        causes.extend(kind.lost().and_then(|rule| context.lost((*kind, rule), key, found)));
        if let Some(rule) = kind.transfer() {
            causes.extend(context.transfer((*kind, rule), key, found));
            found.owned.iter().for_each(|(cell, ns)| *in_transfer.entry(*cell).or_default() += ns);
        }
    }
    causes.extend(context.communication(&in_transfer));
    causes.extend(CauseKind::all_late().filter_map(|(_, rule)| (rule.of_all)(&context)));
    causes.extend(mix_causes::causes(&context));
    for kind in CauseKind::ALL {
        if let CauseFamily::Job(find) = &kind.rule().family {
            causes.extend(find(&context, &causes, &late));
        }
    }
    sampled_evidence::add(job, partials, &mut causes);
    contention::add(&context, partials, &mut causes);
    let paced = paced::limit(job, &account, &mut causes);
    let is_open = |c: &Cause| {
        let least = c.kind.rule().open_pct;
        percent(c.gain, account.length).is_some_and(|p| p >= least)
            || percent(c.owned_sum(), account.all()).is_some_and(|p| p >= least)
    };
    causes.retain(|c| c.kind == CauseKind::InputIncomplete || is_open(c));
    causes.extend(memory::causes(&context, partials));
    for c in &mut causes {
        if c.kind != CauseKind::InputIncomplete && c.kind.memory().is_none() {
            c.trust = {
                // Where whole recordings are compared, a test over the steps of a rank shows that it lasts.
                let must_last = c.kind.rule().must_last && c.p_value.is_none();
                trust.of_cause(c.needs, must_last, account.steps.len())
            };
        }
        if matches!(c.trust, Trust::AtMost(_)) {
            c.certainty = CauseCertainty::AtMost;
        }
    }
    sort_by_importance(&mut causes);
    let operators = match trust.vendor {
        DeviceVendor::Host => host_operators::sums(partials),
        _ => BTreeMap::new(),
    };
    let (unproven, unproven_pct) = (late.unproven, late.unproven_pct);
    Diagnosis { account, causes, trust, topology, operators, paced, unproven, unproven_pct }
}

/// Sorts causes, the most important first.
fn sort_by_importance(causes: &mut [Cause]) {
    let most_late = causes.iter().filter(|c| c.kind.is_late()).map(Cause::rank_weight).fold(0.0, f64::max);
    causes.sort_by_key(|c: &Cause| {
        // A job whose requests for memory fail has no greater trouble.
        let first = match c.kind {
            CauseKind::MemoryFailed => 0,
            CauseKind::InputIncomplete => 1,
            _ => 2,
        };
        // Of an engine, the gap and its owner first, unless one rank alone costs more.
        let is_of_engine = c.kind.is_at(LostPlace::Iteration) && c.rank_weight() >= most_late;
        let serving = if is_of_engine { c.kind as usize } else { usize::MAX };
        (
            first,
            serving,
            Reverse(c.rank_weight().round() as i64),
            Reverse(c.owned_sum()),
            c.kind,
            c.key.clone(),
        )
    });
}

/// The pauses, by rank and name.
fn pauses_by_name(partials: &[Partial]) -> BTreeMap<(u32, String), Vec<Ns>> {
    let mut out: BTreeMap<(u32, String), Vec<Ns>> = BTreeMap::new();
    for row in rows::<HostPauses>(partials) {
        out.entry((row.rank, row.name.to_string())).or_default().push(row.excess_ns);
    }
    out
}

impl Context<'_> {
    fn straggler(&self, s: &LateRank, all: &mut BTreeMap<CauseKey, CollectedCause>) -> Cause {
        let found = all.remove(&(CauseKind::Straggler, s.index.to_string())).unwrap_or_default();
        let mut cause = self.cause(s.kind, &s.key, s.ranks.clone(), found.owned, s.gain);
        cause.basis = GainBasis::Replay;
        if s.is_open {
            cause.certainty = CauseCertainty::AtMost;
        }
        cause.p_value = s.p_value;
        cause.steps = s.steps.clone();
        cause.words = s.words.clone();
        cause.place = s.place.clone();
        cause.evidence = s.evidence.clone();
        self.name_compiler(s, all, &mut cause);
        self.name_still_calls(&mut cause);
        cause
    }

    /// Says that late ranks compile, if that is at least half of what it costs.
    fn name_compiler(&self, s: &LateRank, all: &mut BTreeMap<CauseKey, CollectedCause>, cause: &mut Cause) {
        let is_late = |i: usize, part: u32| {
            let step = self.account.steps.get(i).and_then(|step| step.key);
            s.ranks.contains(&self.rank(part))
                && (s.steps.is_empty() || step.is_some_and(|key| s.steps.contains(&key.shown())))
        };
        let cells = self.account.cells().filter(|(i, (part, _), _)| is_late(*i, *part));
        let lost = cells.flat_map(|(_, _, cell)| &cell.lost).filter(|l| l.kind == CauseKind::HostCompile);
        let mut names: BTreeMap<&str, (Ns, bool)> = BTreeMap::new();
        for l in lost {
            let sum = names.entry(&l.key).or_default();
            *sum = (sum.0 + l.time, sum.1 || l.detail == AGAIN);
        }
        let time: Ns = names.values().map(|(ns, _)| ns).sum();
        let Some((name, _)) = names.iter().max_by_key(|(_, (ns, _))| *ns).filter(|_| time * 2 >= s.gain)
        else {
            return;
        };
        let (what, is_again) = (Compiler::of(name), names.values().any(|(_, again)| *again));
        let once = if is_again { "" } else { ", once" };
        cause.is_once = !is_again;
        cause.words.what.push_str(&format!(": its host {}{once}", what.does(is_again)));
        cause.words.why = format!("It takes {} in {}", fmt_ns(time), compiler_shown(name));
        cause.words.action = what.action(is_again).to_string();
        // It is told once.
        for (_, found) in all.iter_mut().filter(|((kind, _), _)| *kind == CauseKind::HostCompile) {
            let is_own = |(i, (part, _), part_of): &(usize, PartDevice, TimePart)| {
                *part_of == TimePart::Idle && is_late(*i, *part)
            };
            let own: Vec<_> = found.owned.keys().filter(|key| is_own(key)).copied().collect();
            for key in own {
                *cause.owned.entry(key).or_default() += found.owned.remove(&key).unwrap_or(0);
            }
        }
    }
}
