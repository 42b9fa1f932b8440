//! `role_wait`: devices of one role of a job idle while those of another work.

use crate::cause::{Cause, GainBasis};
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::context::Context;
use crate::evidence::{Evidence, of_ranks};
use crate::lost_words::LostWords;
use crate::rule::{CauseFamily, CauseRule, LostRule};
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use hta_job::loops::{JobLoops, LoopPeriod, PeriodOfRank};
use hta_job::recording::capability::Capability;
use hta_trace::role_phase::LoopPhase;
use std::collections::BTreeSet;

pub(super) const RULE: CauseRule = CauseRule {
    name: "role_wait",
    certainty: CauseCertainty::AtMost,
    needs: &[Capability::Idle],
    evidence: "I of a rank between its annotated phases of a loop that generates, scores and trains, where \
               the gap is not much shorter than its longest",
    owns: "that I",
    shown_by: "tests/data/roles/loop/actor",
    family: CauseFamily::Lost(LostRule {
        uses: Some(&[]),
        joins_alike: false,
        // It is told of processes without devices, too: their phases have names.
        is_told: |_| true,
        words,
        names_parts: |_| false,
        finish,
        tint: Some(5),
        ..LostRule::HOST
    }),
    ..CauseRule::DEFAULT
};

/// The words as long as it is not known for which role the ranks wait.
fn words(w: &LostWords) -> CauseWords {
    CauseWords::new(
        format!("{} between the phases of a loop, for other roles", w.device_of_ranks("waits")),
        w.idle(),
        "record the processes of all roles (trainer, rollout engines, reward models) on one host at the same \
         time, and give their files together",
    )
}

/// Says for which role the ranks wait, and bounds the gain by phases that all run at the same time.
fn finish(context: &Context, cause: &mut Cause) {
    let loops = JobLoops::of(context.job);
    cause.certainty = CauseCertainty::AtMost;
    let sums = LoopSums::of(&loops.periods);
    let Some(words) = sums.words() else {
        let why = loops.withheld.unwrap_or("the phases of no other role are recorded");
        cause.words.why.push_str(&format!("; for which is not known: {why}"));
        return;
    };
    (cause.gain, cause.basis, cause.words) = (sums.overlapped, GainBasis::Bound, words);
    for (who, side) in [("training", &sums.training), ("rollout", &sums.rollout)] {
        let mut ranks: Vec<u32> = side.parts.iter().map(|part| context.rank(*part)).collect();
        ranks.sort_unstable();
        let words = format!("{who} ranks idle {} of the loop", fmt_pct(side.idle_pct()));
        let filter = of_ranks(&ranks);
        let evidence = Evidence { table: "role_phases", filter, words };
        cause.evidence.extend((!ranks.is_empty()).then_some(evidence));
    }
}

/// Ranks with one kind of phase, over all periods, ns.
#[derive(Default)]
struct SideOfLoop {
    parts: BTreeSet<u32>,
    /// Their periods.
    time: Ns,
    idle: Ns,
    /// Part of the idle time in which a rank is in the phase of the other side.
    waits: Ns,
}

impl SideOfLoop {
    fn add(&mut self, period: Ns, of: &PeriodOfRank, other: LoopPhase) {
        self.parts.insert(of.part);
        self.time += period;
        self.idle += of.idle_ns();
        self.waits += of.idle.get(&Some(other)).copied().unwrap_or(0);
    }

    fn idle_pct(&self) -> Option<f64> {
        percent(self.idle, self.time)
    }
}

/// Sums over the periods of a loop, ns.
#[derive(Default)]
struct LoopSums {
    periods: Ns,
    time: Ns,
    training: SideOfLoop,
    rollout: SideOfLoop,
    tail: Ns,
    /// Engines that work in the longest tail, and all.
    engines: (u32, u32),
    /// By how much the periods would be shorter, if each were as long as the phases of its busiest rank.
    overlapped: Ns,
}

impl LoopSums {
    fn of(periods: &[LoopPeriod]) -> Self {
        let mut sums = Self { periods: periods.len() as Ns, ..Self::default() };
        let longest = periods.iter().filter_map(|p| p.tail).max_by_key(|tail| tail.span.len());
        sums.engines = longest.map_or((0, 0), |tail| (tail.working, tail.engines));
        for period in periods {
            let length = period.span.len();
            sums.time += length;
            sums.tail += period.tail.map_or(0, |tail| tail.span.len());
            sums.overlapped += period.ranks.iter().map(PeriodOfRank::idle_ns).min().unwrap_or(0);
            for of in &period.ranks {
                if of.does(LoopPhase::Train) {
                    sums.training.add(length, of, LoopPhase::Rollout);
                } else if of.does(LoopPhase::Rollout) {
                    sums.rollout.add(length, of, LoopPhase::Train);
                }
            }
        }
        sums
    }

    /// What is said of the side that waits longer for the other; `None` if neither waits.
    fn words(&self) -> Option<CauseWords> {
        let each = fmt_ns(self.time.checked_div(self.periods)?);
        if self.training.waits == 0 && self.rollout.waits == 0 {
            return None;
        }
        if self.rollout.waits > self.training.waits {
            let idle = fmt_pct(self.rollout.idle_pct());
            return Some(CauseWords::new(
                format!("Rollout devices idle {idle} of the loop, most of it waiting for training"),
                format!("A period takes {each}"),
                "fewer engines, more devices for training, or generate while the last rollout trains (which \
                 uses older weights)",
            ));
        }
        let idle = fmt_pct(self.training.idle_pct());
        let tail = match self.engines {
            (working, all) if self.tail > 0 => format!(
                "; {} of it is the tail of the rollout, in which {working} of {all} engines {}",
                fmt_pct(percent(self.tail, self.time)),
                if working == 1 { "works" } else { "work at most" },
            ),
            _ => String::new(),
        };
        Some(CauseWords::new(
            format!("Training devices idle {idle} of the loop, waiting for rollout"),
            format!("A period takes {each}{tail}"),
            "cap or resume long answers, use more engines, or train while the next rollout runs (which uses \
             older weights)",
        ))
    }
}
