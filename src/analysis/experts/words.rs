//! An imbalance of tokens in words.

use crate::experts::imbalance::{ExpertImbalance, HotPattern};
use hta_base::units::fmt_ns;
use hta_base::wording::counts::plural;
use hta_job::rank_words::RankWords;

/// A time per token that differs by less than this from the mean is equal.
const EQUAL: f64 = 0.05;

impl ExpertImbalance {
    /// Who gets how many tokens, and whether that lasts; no full stop.
    pub fn what(&self, words: &RankWords) -> String {
        let who = words.named(&self.ranks);
        let gets = if self.ranks.len() == 1 { "gets" } else { "get" };
        let ratio = self.ratio;
        let layers = match self.layers {
            1 => "in its layer".to_string(),
            n => format!("in {n} layers"),
        };
        match self.pattern {
            HotPattern::Lasting => {
                format!("Experts: {who} {gets} {ratio:.2} x the mean tokens {layers} and {}", self.in_steps())
            }
            HotPattern::ByLayer => format!(
                "Experts: in each of {} a rank of its own gets {ratio:.2} x the mean tokens, in {}",
                plural(self.layers, "layer"),
                self.in_steps()
            ),
            HotPattern::Rotating => format!(
                "Experts: other ranks in other steps get {ratio:.2} x the mean tokens, {layers} and {}",
                self.in_steps()
            ),
            HotPattern::TooFewSteps => format!(
                "Experts: {who} {gets} {ratio:.2} x the mean tokens {layers}; {} cannot tell if it lasts",
                self.in_steps()
            ),
        }
    }

    fn in_steps(&self) -> String {
        plural(self.steps, "step")
    }

    /// What it costs, and what it is not.
    pub fn why(&self) -> String {
        let (waits, alone) = (fmt_ns(self.waits), fmt_ns(self.of_compute));
        let waits =
            format!("The others wait {waits} a step together; equal expert times alone would save {alone}");
        if (self.per_token - 1.0).abs() <= EQUAL {
            return format!("{waits}; the time per token is equal: no slow GPU");
        }
        format!("{waits}; the hot rank takes {:.2} x the mean time per token", self.per_token)
    }

    /// What to do.
    pub fn action(&self) -> &'static str {
        match self.pattern {
            HotPattern::Rotating => {
                "limit the imbalance of each step (auxiliary loss, expert capacity): a placement that is \
                 planned every n steps will not follow"
            }
            _ => "balance the tokens (auxiliary loss, replicas of hot experts, placement by load as in EPLB)",
        }
    }
}
