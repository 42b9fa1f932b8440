//! The pages of `hta explain`, in parts.

use crate::mcp::answer::{Page, Refusal, Told, clip};
use crate::mcp::tools::{CURSOR, ToolCall, listed, max_bytes};
use hta_results::sql::nearest::nearest;
use rmcp::schemars;
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageOf {
    /// An analysis, a table, a query or a topic; without it the names are listed
    name: Option<String>,
    /// Begin at the first line that contains this text, e.g. a column
    find: Option<String>,
    #[schemars(description = CURSOR)]
    cursor: Option<String>,
    #[schemars(description = max_bytes())]
    max_bytes: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub struct PageText {
    /// Name of the page; none for the list of names
    name: Option<String>,
    lines: Vec<String>,
}

pub async fn explain(call: &ToolCall<'_>, of: PageOf) -> Result<Told<PageText>, Refusal> {
    let page = Page::new(of.cursor.as_deref(), of.max_bytes)?;
    let (names, page_of) = (call.sources.setup.names, call.sources.setup.explain);
    let Some(name) = of.name else {
        let all = names();
        let items = all.iter().map(|(name, title)| both(format!("{name}: {title}"))).collect();
        let (text, lines, cursor) = listed(&page, &format!("{} pages", all.len()), items);
        return Ok(Told { text, answer: PageText { name: None, lines }, cursor });
    };
    let text = page_of(&name).map_err(|_| {
        let known = names();
        let shown = clip(&name, 80);
        let near = nearest(&name, known.iter().map(|k| k.0));
        let hint = near
            .map_or("without a name the pages are listed".to_string(), |n| format!("did you mean `{n}`?"));
        Refusal::refused(format!("nothing is called `{shown}`")).hint(hint)
    })?;
    let lines: Vec<&str> = text.lines().collect();
    let first = match (&of.find, page.from) {
        (Some(text), 0) => {
            let wanted = text.to_lowercase();
            lines.iter().position(|l| l.to_lowercase().contains(&wanted)).ok_or_else(|| {
                Refusal::cannot_answer(format!("the page `{name}` does not contain `{}`", clip(text, 80)))
            })?
        }
        _ => page.from,
    };
    let page = page.starting(first);
    let filled = page.fill(0, lines.iter().map(|l| both(l.to_string())));
    let answer = PageText { name: Some(name), lines: filled.items };
    Ok(Told { text: filled.lines, answer, cursor: filled.cursor })
}

/// A line for the text and for the content.
fn both(line: String) -> (String, String) {
    (line.clone(), line)
}
