//! What can be asked about.

use crate::mcp::answer::{Page, Refusal, Told, clip};
use crate::mcp::tools::{CURSOR, ToolCall, listed, max_bytes};
use rmcp::schemars;
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    #[schemars(description = CURSOR)]
    cursor: Option<String>,
    #[schemars(description = max_bytes())]
    max_bytes: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub struct SourceList {
    sources: Vec<ToldSource>,
}

#[derive(Serialize, JsonSchema)]
pub struct ToldSource {
    /// Pass it to other tools as `source`
    id: String,
    /// results: a folder of `hta analyze`; traces: analysed at first use
    kind: String,
    path: String,
    /// Whether tools answer without reading traces first
    is_ready: bool,
}

pub async fn sources(call: &ToolCall<'_>, of: List) -> Result<Told<SourceList>, Refusal> {
    let page = Page::new(of.cursor.as_deref(), of.max_bytes)?;
    let all = call.sources.list();
    let items = all.iter().map(|s| {
        let known = ToldSource {
            id: s.id.clone(),
            kind: s.kind.name().to_string(),
            path: clip(&s.shown, page.text_bytes()),
            is_ready: s.is_ready(),
        };
        let when = if known.is_ready { "" } else { ", not analysed yet" };
        (format!("{} ({}{when})", known.id, known.kind), known)
    });
    let (text, sources, cursor) = listed(&page, &format!("{} sources", all.len()), items.collect());
    Ok(Told { text, answer: SourceList { sources }, cursor })
}
