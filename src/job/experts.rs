//! Expert layers of the job: the same pass of all ranks of a group, joined by the instance of its dispatch.
//!
//! ```text
//!   rank 0   [dispatch][expert..]      [combine wait.....|transfer]
//!   rank 2   [dispatch][expert....................][combine transfer]      hot: most expert time
//!
//!   expert time / mean = tokens / mean tokens  x  time per token / that of the mean
//!   share of tokens    = ln(tokens / mean) / ln(expert time / mean)       of the hot rank, from 0 to 1
//! ```
//!
//! The share says why a rank takes longer: from 0.8 on tokens alone are the reason, up to 0.2 the time per
//! token alone, between them both, each by its share. Without recorded sizes it is not known.

use crate::chain::StepKey;
use crate::delay::step_of;
use crate::joined::Job;
use crate::matching::Member;
use hta_base::units::{Ns, Span};
use hta_facts::direction::Direction;
use hta_facts::experts::{ExpertLayer, LayerTokens};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Share of tokens from which they are the only reason; one minus it is that up to which they are none.
const ONLY_REASON: f64 = 0.8;

/// Expert times that differ by less than this factor from the mean have no reason.
const LEAST_FACTOR: f64 = 1.02;

/// One rank's pass through an expert layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerMember {
    pub part: u32,
    /// Index into the layers of the part.
    pub(crate) layer: u32,
}

/// One pass of a group through an expert layer.
#[derive(Debug, Clone)]
pub struct JobLayer {
    /// Index of the matched group.
    pub group: u32,
    pub step: Option<StepKey>,
    pub direction: Direction,
    /// Position among the layers of the same step and direction.
    pub ordinal: u32,
    pub name: Arc<str>,
    /// Number of members that it should have.
    pub expected: u32,
    /// By part.
    pub members: Vec<LayerMember>,
    /// Whether what each member received from each other is what that one sent; `None` if not known.
    pub agrees: Option<bool>,
    /// What is known if all members are recorded, and their times.
    pub balance: Option<LayerBalance>,
}

/// How unequal the members of a layer are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerBalance {
    /// Largest and (next field) mean expert time, ns.
    pub max: Ns,
    pub mean: Ns,
    /// The part with the largest expert time.
    pub hot: u32,
    /// Largest received size over the mean; `None` where sizes are not recorded.
    pub load_ratio: Option<f64>,
    /// Time per token of the hot rank over that of the mean.
    pub per_token_ratio: Option<f64>,
    /// Share of tokens in the excess of the hot rank; `None` if not known, or if nobody takes longer.
    pub token_share: Option<f64>,
    /// Mean remote size of the members over that of the busiest one: what balanced exchanges would take.
    /// `None` where it is not known what stays on a rank.
    pub(crate) port_ratio: Option<f64>,
}

impl LayerBalance {
    /// How much longer the hot rank computes than the mean, ns.
    pub fn excess(&self) -> Ns {
        self.max - self.mean
    }

    /// Whether some rank takes longer, and no size says why.
    fn is_unknown(&self) -> bool {
        self.load_ratio.is_none() && self.max as f64 >= LEAST_FACTOR * self.mean as f64
    }

    /// A part of a time that is due to unequal tokens, ns.
    pub fn by_tokens(&self, time: Ns) -> Ns {
        self.token_share.map_or(0, |share| (share * time as f64).round() as Ns)
    }
}

/// All expert layers of a job.
#[derive(Debug, Default)]
pub struct JobLayers {
    /// By step, direction, position and group.
    pub layers: Vec<JobLayer>,
    /// By part: when it was ready for a combine, and by how much it computed longer than the mean; in order
    /// of time.
    more: Vec<Vec<(Ns, MoreExpertTime)>>,
}

/// By how much a part computes longer than the mean in experts, ns; negative where it takes less.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MoreExpertTime {
    /// Because it has more tokens.
    pub(crate) by_tokens: Ns,
    /// Where sizes are not recorded, so that nobody knows why.
    pub(crate) unknown: Ns,
    /// All that these experts take.
    pub(crate) expert: Ns,
}

impl MoreExpertTime {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            by_tokens: self.by_tokens + other.by_tokens,
            unknown: self.unknown + other.unknown,
            expert: self.expert + other.expert,
        }
    }
}

impl JobLayers {
    pub fn of(job: &Job) -> Arc<Self> {
        job.shared(Self::new)
    }

    fn new(job: &Job) -> Self {
        let mut joined: BTreeMap<u32, Vec<LayerMember>> = BTreeMap::new();
        for (part, p) in (0u32..).zip(&job.parts) {
            for (layer, l) in (0u32..).zip(p.layers.iter()) {
                if let Some(instance) = job.instance_of(Member { part, call: l.dispatch }) {
                    joined.entry(instance).or_default().push(LayerMember { part, layer });
                }
            }
        }
        let mut layers: Vec<JobLayer> =
            joined.into_iter().filter_map(|(instance, members)| layer(job, instance, members)).collect();
        layers.sort_by_key(|l| (l.step, l.direction, l.ordinal, l.group));
        let mut more: Vec<Vec<(Ns, MoreExpertTime)>> = vec![Vec::new(); job.parts.len()];
        for l in &layers {
            let Some(balance) = l.balance.filter(|b| b.token_share.is_some() || b.is_unknown()) else {
                continue;
            };
            for m in &l.members {
                let own = of_member(job, *m);
                let ready = job.ready(Member { part: m.part, call: own.meets() });
                if let Some(of_part) = more.get_mut(m.part as usize) {
                    let expert = own.expert.unwrap_or(0);
                    let time = expert - balance.mean;
                    let (unknown, expert) = if balance.is_unknown() { (time, expert) } else { (0, 0) };
                    let by_tokens = balance.by_tokens(time);
                    of_part.push((ready, MoreExpertTime { by_tokens, unknown, expert }));
                }
            }
        }
        more.iter_mut().for_each(|of_part| of_part.sort_unstable());
        Self { layers, more }
    }

    /// By how much a part computed longer than the mean in a span of its own clock.
    pub(crate) fn more_in(&self, part: u32, span: Span) -> MoreExpertTime {
        let all = self.more.get(part as usize).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|(ready, _)| *ready <= span.start);
        let inside = all[first..].iter().take_while(|(ready, _)| *ready <= span.end);
        inside.fold(MoreExpertTime::default(), |sum, (_, more)| sum.plus(*more))
    }
}

/// Share of the passes in which a rank must be the slow one for its time per token to be told.
const MOST_PASSES: f64 = 0.8;

impl JobLayers {
    /// How many times as long a part takes for each token as the other members of its layers, if tokens are
    /// not why it takes longest in most of its passes.
    pub fn slower_per_token(&self, part: u32) -> Option<f64> {
        let own = self.layers.iter().filter(|l| l.members.iter().any(|m| m.part == part));
        let (mut passes, mut ratios) = (0, Vec::new());
        for l in own {
            passes += 1;
            let n = l.members.len() as f64;
            let slow = l.balance.filter(|b| b.hot == part && b.token_share == Some(0.0));
            // The ratio to the mean, of which the part itself is one.
            let to_mean = slow.and_then(|b| b.per_token_ratio).filter(|ratio| *ratio < n);
            ratios.extend(to_mean.map(|ratio| ratio * (n - 1.0) / (n - ratio)));
        }
        let is_most = !ratios.is_empty() && ratios.len() as f64 >= MOST_PASSES * f64::from(passes);
        is_most.then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    }
}

/// How long a member waits in an exchange with the barriers of its library around it, ns.
pub fn exchange_wait(job: &Job, part: u32, calls: [Option<u32>; 3]) -> Option<Ns> {
    calls.into_iter().flatten().map(|call| job.told_wait(Member { part, call }).map(|o| o.wait)).sum()
}

/// What the members of a layer wait in the combine, ns.
pub fn combine_waits(job: &Job, l: &JobLayer) -> Ns {
    let wait = |m: &LayerMember| exchange_wait(job, m.part, of_member(job, *m).exchanges()[1]);
    l.members.iter().filter_map(wait).sum()
}

/// The pass of one member.
pub fn of_member(job: &Job, m: LayerMember) -> &ExpertLayer {
    &job.parts[m.part as usize].layers[m.layer as usize]
}

fn layer(job: &Job, instance: u32, members: Vec<LayerMember>) -> Option<JobLayer> {
    let i = job.instances().get(instance as usize)?;
    let first = *members.first()?;
    let own = of_member(job, first);
    let is_whole = i.is_complete() && !job.matched.is_cut(i) && members.len() == i.len() && i.len() > 1;
    let tokens: Vec<&LayerTokens> = members.iter().map(|m| &of_member(job, *m).tokens).collect();
    Some(JobLayer {
        group: i.group,
        step: step_of(job, Member { part: first.part, call: own.dispatch }),
        direction: own.direction,
        ordinal: own.ordinal,
        name: Arc::clone(&own.name),
        expected: i.expected,
        agrees: if is_whole { agree(&tokens) } else { None },
        balance: is_whole.then(|| balance(job, &members, &tokens)).flatten(),
        members,
    })
}

/// Whether what each member received from each other is what that one sent it.
fn agree(tokens: &[&LayerTokens]) -> Option<bool> {
    let n = tokens.len();
    if tokens.iter().any(|t| t.sent_parts.len() != n || t.received_parts.len() != n) {
        return None;
    }
    Some((0..n).all(|a| (0..n).all(|b| tokens[a].sent_parts.get(b) == tokens[b].received_parts.get(a))))
}

/// `None` where experts compute inside fused kernels.
fn balance(job: &Job, members: &[LayerMember], tokens: &[&LayerTokens]) -> Option<LayerBalance> {
    let n = members.len().max(1) as i64;
    let times = members.iter().map(|m| of_member(job, *m).expert).collect::<Option<Vec<Ns>>>()?;
    let (max, mean) = (times.iter().copied().max().unwrap_or(0), times.iter().sum::<Ns>() / n);
    let hot = times.iter().position(|t| *t == max).unwrap_or(0);
    let loads: Option<Vec<i64>> = tokens.iter().map(|t| t.received).collect();
    let loads = loads.filter(|l| l.iter().all(|b| *b >= 0) && l.iter().any(|b| *b > 0));
    let over_mean = |value: i64, all: i128| (all > 0).then(|| value as f64 * n as f64 / all as f64);
    let sum = |list: &[i64]| list.iter().map(|v| i128::from(*v)).sum::<i128>();
    let time_ratio = over_mean(max, sum(&times));
    let load_ratio = loads.as_ref().and_then(|l| over_mean(*l.iter().max()?, sum(l)));
    let of_hot = loads.as_ref().and_then(|l| over_mean(*l.get(hot)?, sum(l)));
    let per_token_ratio = time_ratio.zip(of_hot).filter(|(_, load)| *load > 0.0).map(|(t, load)| t / load);
    let remote = |of: fn(&LayerTokens) -> Option<i64>| -> Option<Vec<i64>> {
        tokens.iter().map(|t| Some(of(t)? - t.own?)).collect()
    };
    let port_ratio = remote(|t| t.received).zip(remote(|t| t.sent)).and_then(|(received, sent)| {
        let busiest = received.iter().chain(&sent).copied().max().filter(|most| *most > 0)?;
        Some((sum(&received) as f64 / n as f64 / busiest as f64).min(1.0))
    });
    Some(LayerBalance {
        max,
        mean,
        hot: members.get(hot).map_or(0, |m| m.part),
        load_ratio,
        per_token_ratio,
        token_share: time_ratio.zip(of_hot).and_then(|(time, load)| token_share(time, load)),
        port_ratio,
    })
}

/// The share of tokens in the time by which the hot rank exceeds the mean.
fn token_share(time_ratio: f64, load_ratio: f64) -> Option<f64> {
    if time_ratio < LEAST_FACTOR || load_ratio <= 0.0 {
        return None;
    }
    let share = load_ratio.ln() / time_ratio.ln();
    Some(match share {
        s if s >= ONLY_REASON => 1.0,
        s if s <= 1.0 - ONLY_REASON => 0.0,
        s => s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_tokens_follows_the_logarithms() {
        assert_eq!(token_share(1.74, 1.74), Some(1.0));
        assert_eq!(token_share(1.35, 1.0), Some(0.0));
        // Tokens and time per token are 1.2 each.
        let half = token_share(1.44, 1.2).expect("a share");
        assert!((half - 0.5).abs() < 1e-9, "{half}");
        assert_eq!(token_share(1.01, 1.01), None);
    }

    #[test]
    fn parts_agree_if_what_is_sent_arrives() {
        let tokens = |sent: [i64; 2], received: [i64; 2]| LayerTokens {
            sent_parts: sent.to_vec(),
            received_parts: received.to_vec(),
            ..LayerTokens::default()
        };
        let (a, b) = (tokens([1, 2], [1, 3]), tokens([3, 4], [2, 4]));
        assert_eq!(agree(&[&a, &b]), Some(true));
        assert_eq!(agree(&[&a, &tokens([3, 4], [9, 4])]), Some(false));
        assert_eq!(agree(&[&a, &LayerTokens::default()]), None);
    }
}
