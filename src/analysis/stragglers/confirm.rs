//! Confirms late ranks by the replay of the job: a rank is a straggler only if the job is shorter without its
//! delay.
//!
//! Who is last may be nobody's fault: where all hosts are slow, the others would not come earlier either. The
//! gain of the replay is the one gain of a repair, in every answer.

use crate::api::Options;
use crate::stragglers::chance::APART_PCT;
use crate::stragglers::straggler::{Judgement, NoChance, Pattern, Straggler};
use hta_base::units::{Ns, percent};
use hta_job::delay::StepKey;
use hta_job::replay::ReplayedJob;
use std::cmp::Reverse;

/// Gives each straggler the gain of its repair, and sets those aside whose repair gives too little.
pub(crate) fn confirm(options: &Options, judged: &mut Judgement, replayed: &ReplayedJob) {
    let min_pct = options.across.straggler_min_pct;
    let (keys, time) = (judged.length.keys.clone(), judged.length.time);
    let all = std::mem::take(&mut judged.stragglers);
    for s in &all {
        let alone = replayed.gain_of(|part, step| s.is_late(part, step), &keys);
        // A rank that is late behind others gains what is left when these are repaired.
        let gain = if s.behind.is_empty() || pct_of(s, alone, time, &keys) >= min_pct {
            alone
        } else {
            let before =
                |part, step| all.iter().any(|o| o.behind.len() < s.behind.len() && o.is_late(part, step));
            let both = replayed.gain_of(|part, step| before(part, step) || s.is_late(part, step), &keys);
            both - replayed.gain_of(before, &keys)
        };
        let pct = pct_of(s, gain, time, &keys);
        let to = if pct >= min_pct { &mut judged.stragglers } else { &mut judged.unconfirmed };
        // What stands out in its steps does not rest on many steps that agree.
        let is_brief = s.is_brief || pct < APART_PCT && s.evidence != NoChance::StandsOut;
        to.push(Straggler { gain, is_brief, ..s.clone() });
    }
    judged.stragglers.sort_by_key(|s| (!s.behind.is_empty(), Reverse(s.gain), s.parts.clone()));
}

/// The gain over all steps, percent of their time; of a rank that is late in some steps, of the time of
/// these.
fn pct_of(s: &Straggler, gain: Ns, time: Ns, keys: &[StepKey]) -> f64 {
    let steps = keys.len().max(1) as Ns;
    let late = if s.pattern == Pattern::InSteps { (s.steps.len() as Ns).min(steps) } else { steps };
    percent(gain, time / steps * late).unwrap_or(0.0)
}
