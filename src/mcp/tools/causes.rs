//! All causes of lost time.

use crate::mcp::answer::{Page, Refusal, Told, clip};
use crate::mcp::rows::literal;
use crate::mcp::tools::{CURSOR, SOURCE, ToolCall, listed, max_bytes};
use hta_base::units::{fmt_ns, fmt_pct};
use hta_diagnosis::CauseKind;
use rmcp::schemars;
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OfPaged {
    #[schemars(description = SOURCE)]
    source: Option<String>,
    #[schemars(description = CURSOR)]
    cursor: Option<String>,
    #[schemars(description = max_bytes())]
    max_bytes: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub struct ToldCauses {
    causes: Vec<CauseItem>,
}

#[derive(Serialize, JsonSchema)]
pub struct CauseItem {
    /// The same in every run that has this cause
    finding_id: String,
    kind: String,
    /// Its ranks in words
    ranks: String,
    /// Its steps, separated by commas; empty: all
    steps: String,
    /// Gain over all steps if only this cause is fixed, ns
    recoverable_ns: Option<i64>,
    /// The same, percent of the job's time
    recoverable_pct: Option<f64>,
    /// sure, likely, at most (the gain is a bound) or withheld
    certainty: String,
    /// What of the recording makes it less than sure
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    sentence: String,
    /// The numbers that show it
    detail: String,
    /// Function of the user's code with file and line, and the module; empty if it is not recorded
    place: String,
}

/// Most causes that are read.
const MOST_CAUSES: usize = 10_000;

pub async fn causes(call: &ToolCall<'_>, of: OfPaged) -> Result<Told<ToldCauses>, Refusal> {
    let page = Page::new(of.cursor.as_deref(), of.max_bytes)?;
    let (source, folder) = call.results(of.source.as_deref()).await?;
    let sql = format!(
        "SELECT finding_id, kind, rank_label, step_labels, recoverable_ns, recoverable_pct, certainty, \
         reason, sentence, detail, place FROM findings WHERE kind <> {} ORDER BY position",
        literal(CauseKind::NotExplained.name())
    );
    let rows = call.rows(&source, &folder, &sql, MOST_CAUSES).await?;
    let most = page.text_bytes();
    let cause = |i: usize| {
        let cell = |column: &str| clip(rows.text(i, column), most);
        let reason = rows.get(i, "reason").as_str().map(|r| clip(r, most));
        let cause = CauseItem {
            finding_id: cell("finding_id"),
            kind: cell("kind"),
            ranks: cell("rank_label"),
            steps: cell("step_labels"),
            recoverable_ns: rows.get(i, "recoverable_ns").as_i64(),
            recoverable_pct: rows.get(i, "recoverable_pct").as_f64(),
            certainty: cell("certainty"),
            reason,
            sentence: cell("sentence"),
            detail: cell("detail"),
            place: cell("place"),
        };
        let gain = cause.recoverable_ns.map(fmt_ns).unwrap_or_default();
        let share = fmt_pct(cause.recoverable_pct);
        let CauseItem { finding_id, ranks, certainty, sentence, .. } = &cause;
        let line =
            format!("{finding_id}: {sentence} ({ranks}; gain {gain} over all steps, {share}; {certainty})");
        (line, cause)
    };
    let head = match rows.len() {
        0 => "no cause takes 1 % of the time".to_string(),
        1 => "1 cause".to_string(),
        n => format!("{n} causes, the most important first"),
    };
    let (text, causes, cursor) = listed(&page, &head, (0..rows.len()).map(cause).collect());
    Ok(Told { text, answer: ToldCauses { causes }, cursor })
}
