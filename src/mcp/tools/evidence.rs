//! What supports a cause, and what to do about it.

use crate::mcp::answer::{Page, Refusal, Told, clip};
use crate::mcp::rows::{ToldRows, literal};
use crate::mcp::tools::{CURSOR, SOURCE, ToolCall, max_bytes};
use hta_results::output::visible;
use hta_results::sql::nearest::nearest;
use rmcp::schemars;
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvidenceOf {
    /// Id of a cause, as `causes` gives it
    finding_id: String,
    #[schemars(description = SOURCE)]
    source: Option<String>,
    #[schemars(description = CURSOR)]
    cursor: Option<String>,
    #[schemars(description = max_bytes())]
    max_bytes: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub struct ToldEvidence {
    finding_id: String,
    sentence: String,
    /// What to do
    action: String,
    /// How the gain was found: replay, bound, roofline or assumed
    basis: String,
    /// sure, likely, at most (the gain is a bound) or withheld
    certainty: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    evidence: Vec<ToldNumber>,
}

#[derive(Serialize, JsonSchema)]
pub struct ToldNumber {
    /// A number with its words
    words: String,
    /// Selects the rows in which it stands
    sql: String,
}

/// Most numbers that are read.
const MOST_NUMBERS: usize = 10_000;

pub async fn evidence(call: &ToolCall<'_>, of: EvidenceOf) -> Result<Told<ToldEvidence>, Refusal> {
    let page = Page::new(of.cursor.as_deref(), of.max_bytes)?;
    let (source, folder) = call.results(of.source.as_deref()).await?;
    let id = literal(&of.finding_id);
    let sql = format!(
        "SELECT sentence, action, basis, certainty, reason FROM findings WHERE finding_id = \
         {id} ORDER BY position"
    );
    let found = call.rows(&source, &folder, &sql, 1).await?;
    if found.len() == 0 {
        let known =
            call.rows(&source, &folder, "SELECT finding_id FROM findings ORDER BY position", 100).await?;
        let ids: Vec<&str> = (0..known.len()).map(|i| known.text(i, "finding_id")).collect();
        let near = nearest(&of.finding_id, ids.iter().copied());
        let shown = clip(&of.finding_id, 80);
        let hint =
            near.map_or_else(|| format!("one of {}", ids.join(", ")), |n| format!("did you mean `{n}`?"));
        return Err(Refusal::refused(format!("`{}` has no finding `{shown}`", source.id)).hint(hint));
    }
    let sql = format!(
        "SELECT evidence_table, filter, words FROM finding_evidence WHERE finding_id = {id} ORDER BY position"
    );
    let numbers = call.rows(&source, &folder, &sql, MOST_NUMBERS).await?;
    let cell = |column: &str| clip(found.text(0, column), page.text_bytes());
    let mut answer = ToldEvidence {
        finding_id: clip(&of.finding_id, 80),
        sentence: cell("sentence"),
        action: cell("action"),
        basis: cell("basis"),
        certainty: cell("certainty"),
        reason: found.get(0, "reason").as_str().map(|r| clip(r, page.text_bytes())),
        evidence: Vec::new(),
    };
    let head = format!("{}\ndo: {}", visible::line(&answer.sentence), visible::line(&answer.action));
    // The sentence and the advice stand in text and content.
    let both = head.len() + answer.sentence.len() + answer.action.len();
    let filled = page.fill(both, (0..numbers.len()).map(|i| number(&numbers, i, page.text_bytes())));
    answer.evidence = filled.items;
    Ok(Told { text: format!("{head}\n{}", filled.lines), answer, cursor: filled.cursor })
}

fn number(rows: &ToldRows, i: usize, most: usize) -> (String, ToldNumber) {
    let (table, filter) = (rows.text(i, "evidence_table"), rows.text(i, "filter"));
    let filter = if filter.is_empty() { String::new() } else { format!(" WHERE {filter}") };
    let number = ToldNumber {
        words: clip(rows.text(i, "words"), most),
        sql: format!("SELECT * FROM {table}{filter}"),
    };
    (format!("- {}: {}", number.words, number.sql), number)
}
