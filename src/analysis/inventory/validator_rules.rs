//! The table of what torch's own validator of traces would say of a rank. (The table `trust` lists only what
//! a recording does not carry, so that a rule which passes, or cannot be checked, has no row there.)

use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::wording::counts::counted;
use hta_facts::validator::{EARLY_PCT, RuleCases, UNNAMED_PCT, Validation, ValidatorRule};
use hta_trace::rank_trace::RankTrace;

table! {
    /// The rules of torch's validator of traces (`torch.profiler._trace_validator`): what was checked, and
    /// what follows from violations.
    pub struct ValidatorRules, ValidatorRuleRow = "validator_rules" by "rank, position of the rule" {
        rank;
        rule: Text, "",
            "gpu_kernel_causality, stream_wait_corr_id_populated, stream_sync_overlap, \
             stream_wait_corr_id_in_past, nccl_metadata or backward_seq_id_uniqueness (see hta explain \
             trust)";
        state: Text, "", "passed, violated or not_checkable (nothing in the file that the rule is about)";
        checked: u64, "", "cases that the rule is about";
        violated: u64, "", "cases that violate it";
        effect: Option<Text>, "", "what hta does because of the violations; null: nothing";
    }
}

/// The rows of a rank.
pub(super) fn table(trace: &RankTrace) -> Batch {
    let found = Validation::of(trace);
    let mut table = ValidatorRules::default();
    for rule in ValidatorRule::ALL {
        let cases = found.cases(rule);
        table.push(ValidatorRuleRow {
            rank: trace.rank,
            rule: rule.name(),
            state: match cases {
                RuleCases { checked: 0, .. } => "not_checkable",
                RuleCases { violated: 0, .. } => "passed",
                _ => "violated",
            },
            checked: cases.checked,
            violated: cases.violated,
            effect: effect(trace, rule, cases).as_deref(),
        });
    }
    table.finish()
}

/// What follows from the violations of a rule.
fn effect(trace: &RankTrace, rule: ValidatorRule, cases: RuleCases) -> Option<String> {
    if cases.violated == 0 {
        return None;
    }
    match rule {
        ValidatorRule::KernelCausality => cases.exceeds(EARLY_PCT).then(|| {
            let text = match trace.launch_times.clocks.is_empty() {
                true => "withheld: what the host causes (rule launch_causality of hta explain trust)",
                false => "at most: what is said of idle time, launches and the host (rule device_clock)",
            };
            text.to_string()
        }),
        ValidatorRule::WaitPopulated => cases
            .exceeds(UNNAMED_PCT)
            .then(|| "downgraded: edges of events on the critical path are marked inferred".to_string()),
        // A host that waits for a stream begins while its kernels run.
        ValidatorRule::SyncOverlap => None,
        ValidatorRule::WaitInPast => {
            Some(format!("dropped: {} of the critical path", counted(cases.violated, "event edge")))
        }
        ValidatorRule::CollectiveMetadata => Some(
            "sizes from names: kinds, sizes and groups of these follow from names and shapes".to_string(),
        ),
        ValidatorRule::BackwardUniqueness => Some(format!(
            "dropped: links of forward and backward operators with {}",
            counted(cases.violated, "sequence number")
        )),
    }
}
