//! What causes in the communication itself are found by, and the numbers of their sentences.

use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::evidence::Evidence;
use hashbrown::HashMap;
use hta_analysis::fabric::SavedTransfers;
use hta_base::units::Ns;
use hta_job::exposed::{ExposedKind, ExposedPiece};
use hta_job::{Job, Member};
use std::borrow::Cow;

/// The exposed communication of a device of a rank.
pub(crate) struct ExposedLane<'a> {
    pub(crate) job: &'a Job,
    pub(crate) part: u32,
    /// Its calls, in order of start.
    pub(crate) calls: &'a [u32],
    /// In order of time.
    pub(crate) exposed: &'a [ExposedPiece],
}

/// What a cause takes of an exposed piece.
pub(crate) struct TransferShare {
    /// Index of the piece.
    pub(crate) piece: usize,
    pub(crate) time: Ns,
    /// What the cause is about; `None`: the kind of the call.
    pub(crate) key: Option<Cow<'static, str>>,
}

impl ExposedLane<'_> {
    /// Takes what a repair saves of transfers, and of the waiting behind them, as far as it is left.
    pub(crate) fn take(&self, saved: &SavedTransfers, key: &str, left: &[Ns]) -> Vec<TransferShare> {
        let mut out = Vec::new();
        // What is left of the waiting of each call.
        let mut waits: HashMap<u32, Ns> = HashMap::new();
        for (piece, (p, left)) in self.exposed.iter().zip(left).enumerate() {
            let Some(call) = p.call else { continue };
            let time = match p.what {
                ExposedKind::Transfer => {
                    let share = saved.share(self.job, Member { part: self.part, call }).unwrap_or(0.0);
                    (*left as f64 * share) as Ns
                }
                ExposedKind::Sync => {
                    let all = || saved.waits.get(&Member { part: self.part, call }).copied().unwrap_or(0);
                    let rest = waits.entry(call).or_insert_with(all);
                    let time = (*rest).min(*left);
                    *rest -= time;
                    time
                }
                ExposedKind::Unmatched => 0,
            };
            if time > 0 {
                out.push(TransferShare { piece, time, key: Some(key.to_string().into()) });
            }
        }
        out
    }
}

/// What is known of transfers beyond the time that they take.
pub(crate) struct KnownTransfers {
    /// Whose transfers they are.
    pub(crate) ranks: Vec<u32>,
    /// The gain by a replay of the job, ns.
    pub(crate) gain: Option<Ns>,
    pub(crate) certainty: CauseCertainty,
    pub(crate) words: CauseWords,
    /// Of a test for chance.
    pub(crate) p_value: Option<f64>,
    /// Rows of other tables in which the numbers of the words stand.
    pub(crate) evidence: Vec<Evidence>,
}

/// The numbers of a cause in the communication itself.
pub(crate) struct TransferWords<'a> {
    /// What is exposed, for example ` of group pipe`.
    pub(crate) calls: String,
    pub(crate) ranks: &'a str,
    /// In words.
    pub(crate) time: String,
}
