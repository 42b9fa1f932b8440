//! How far the recording of a run carries what the page says, from the table `trust`: a grade for each
//! section, and the reasons.

use crate::results::{Results, ResultsError, columns};
use hta_base::table::schema::Text;
use hta_diagnosis::registry;
use hta_job::recording::Recording;
use hta_job::recording::capability::{Capability, Grade};
use hta_job::recording::limit::TrustTable;
use serde::Serialize;

columns! {
    Limited of TrustTable {
        rank: Option<u32>, capability: Text, grade: Text, rule: Text, sentence: Text, next: Text,
    }
}

/// Largest number of reasons that a page names.
const MOST: usize = 8;

/// What a section may say.
#[derive(Debug, Serialize)]
pub(crate) struct SectionGrade {
    /// sure, at most, or withheld.
    pub(crate) grade: &'static str,
    /// What of the recording makes it less than sure, and what to record next time.
    pub(crate) reason: Option<String>,
}

/// The limits of a recording.
#[derive(Default)]
pub(crate) struct PageTrust {
    /// Rank, then capability, grade, rule, sentence and next.
    limits: Vec<(Option<u32>, [String; 5])>,
    /// `None` where the results do not have the table.
    recording: Option<Recording>,
}

impl PageTrust {
    /// Reads the table of a run of so many ranks.
    ///
    /// # Errors
    /// When the table is damaged.
    pub(crate) fn read(results: &Results, rank_count: usize) -> Result<Self, ResultsError> {
        let mut limits: Vec<(Option<u32>, [String; 5])> = Vec::new();
        let there = results.read::<Limited>(|r| {
            limits.push((r.rank, [r.capability, r.grade, r.rule, r.sentence, r.next].map(str::to_string)));
        })?;
        let texts = limits.iter().map(|(rank, of)| (*rank, of.each_ref().map(String::as_str)));
        let recording = there.then(|| Recording::of_texts(texts, rank_count));
        Ok(Self { limits, recording })
    }

    /// The grade of a section that rests on some capabilities and on what the analysis of a name needs;
    /// `None` where it rests on nothing that a recording may lack.
    pub(crate) fn grade(&self, stem: &str, needs: &[Capability]) -> Option<SectionGrade> {
        let of_analysis = registry::find(stem).map_or(&[][..], |analysis| analysis.about().needs);
        let needs = [needs, of_analysis].concat();
        let recording = self.recording.as_ref().filter(|_| !needs.is_empty())?;
        let (grade, limit) = recording.grade(&needs);
        let limit = limit.filter(|_| grade != Grade::Ok);
        Some(SectionGrade {
            grade: grade.name(),
            reason: limit.map(|l| format!("{}; {}", l.sentence, l.next)),
        })
    }

    /// A sentence for each reason: what is withheld or a bound for it, and what to record next time.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut reasons: Vec<(&str, [&str; 2], Vec<String>)> = Vec::new();
        for (_, [capability, grade, _, sentence, next]) in &self.limits {
            let said = [sentence.as_str(), next.as_str()];
            let capability = capability.replace('_', " ");
            match reasons.iter_mut().find(|(known, words, _)| known == grade && *words == said) {
                Some((_, _, of)) if of.contains(&capability) => {}
                Some((_, _, of)) => of.push(capability),
                None => reasons.push((grade, said, vec![capability])),
            }
        }
        let more = reasons.len().saturating_sub(MOST);
        let line = |(grade, [sentence, next], of): (&str, [&str; 2], Vec<String>)| {
            format!("{grade} ({}): {sentence}; {next}", of.join(", "))
        };
        let mut out: Vec<String> = reasons.into_iter().take(MOST).map(line).collect();
        out.extend((more > 0).then(|| format!("{more} more reasons are in the table trust")));
        out
    }
}
