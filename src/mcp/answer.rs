//! The form of every answer, and how much of it is told at a time.
//!
//! An answer says first whether there is one: `answered`, `cannot_answer` (the recording does not say, or it
//! is not trusted) or `refused` (the request is wrong). The text is for reading, the structured content for
//! computing; both hold the same facts. A name in a trace may hold line breaks, escape sequences or marks of
//! writing direction, with which it could look like more rows of the text: there they are escaped. The
//! structured content has names as they are.

use hta_results::output::visible;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::schemars;
use rmcp::schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Size of an answer unless the caller asks for another, bytes.
pub const BYTES: usize = 2000;
/// Sizes that a caller can ask for, bytes.
pub const BYTES_RANGE: std::ops::RangeInclusive<usize> = 500..=100_000;

/// Part of the size for what surrounds text and content, bytes.
const FRAME: usize = 150;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Answered,
    CannotAnswer,
    Refused,
}

/// An answer, or why there is none.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer<T> {
    /// answered; cannot_answer: the recording does not say, `reason` says why; refused: the request is wrong
    pub status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to do about it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// There is more: call again with the same arguments and this cursor
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// What a tool has found.
pub struct Told<T> {
    /// The facts for reading.
    pub text: String,
    pub answer: T,
    pub cursor: Option<String>,
}

/// Why a tool has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: Status,
    pub reason: String,
    pub hint: Option<String>,
}

impl Refusal {
    /// The request is wrong.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self { status: Status::Refused, reason: reason.into(), hint: None }
    }

    /// The request is right, and what there is does not say.
    pub fn cannot_answer(reason: impl Into<String>) -> Self {
        Self { status: Status::CannotAnswer, reason: reason.into(), hint: None }
    }

    pub fn hint(self, hint: impl Into<String>) -> Self {
        // Some hints list names below each other.
        let hint = hint.into().split_whitespace().collect::<Vec<_>>().join(" ");
        Self { hint: Some(hint), ..self }
    }
}

/// The result of a tool as the protocol has it.
pub fn result<T: Serialize>(found: Result<Told<T>, Refusal>) -> CallToolResult {
    let (text, answer) = match found {
        Ok(Told { text, answer, cursor }) => {
            let more = cursor.as_ref().map(|c| format!("\nmore: cursor \"{c}\"")).unwrap_or_default();
            let answer =
                Answer { status: Status::Answered, answer: Some(answer), reason: None, hint: None, cursor };
            (text + &more, answer)
        }
        Err(Refusal { status, reason, hint }) => {
            let reason = clip(&reason, BYTES / 3);
            let hint = hint.map(|h| clip(&h, BYTES / 4));
            let word = if status == Status::Refused { "refused" } else { "cannot answer" };
            let hint_line =
                hint.as_deref().map(|h| format!("\nhint: {}", visible::line(h))).unwrap_or_default();
            let text = format!("{word}: {}{hint_line}", visible::line(&reason));
            (text, Answer { status, answer: None, reason: Some(reason), hint, cursor: None })
        }
    };
    let is_refused = answer.status == Status::Refused;
    // The types of answers hold nothing that JSON lacks.
    let mut result = CallToolResult::structured(serde_json::to_value(answer).unwrap_or(Value::Null));
    result.content = vec![ContentBlock::text(visible::lines(text.trim_end()))];
    result.is_error = Some(is_refused);
    result
}

/// Which part of a list is told.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Index of the first item.
    pub from: usize,
    /// Size of the whole answer, bytes.
    bytes: usize,
}

/// The items that fit.
pub struct Filled<T> {
    pub lines: String,
    pub items: Vec<T>,
    pub cursor: Option<String>,
}

impl Page {
    /// # Errors
    /// When the cursor is not one of ours or the size is out of range.
    pub fn new(cursor: Option<&str>, max_bytes: Option<u32>) -> Result<Self, Refusal> {
        let from = match cursor {
            None => 0,
            Some(text) => text.parse::<u32>().map_err(|_| {
                Refusal::refused(format!("cannot go on from the cursor `{}`", clip(text, 40)))
                    .hint("pass the `cursor` of the last answer unchanged, or none to begin")
            })? as usize,
        };
        let bytes = max_bytes.map_or(BYTES, |b| b as usize);
        if !BYTES_RANGE.contains(&bytes) {
            let (least, most) = (BYTES_RANGE.start(), BYTES_RANGE.end());
            return Err(Refusal::refused(format!(
                "expected max_bytes from {least} to {most}, found {bytes}"
            )));
        }
        Ok(Self { from, bytes })
    }

    /// The same page from another item on.
    pub fn starting(self, from: usize) -> Self {
        Self { from, ..self }
    }

    /// Longest text in a field of an item, bytes.
    pub fn text_bytes(&self) -> usize {
        self.bytes / 8
    }

    /// Size that is left for items beside `head`, bytes; `None` if that is too little for a list.
    pub fn room(&self, head: usize) -> Option<usize> {
        self.bytes.checked_sub(FRAME + head).filter(|left| *left > self.bytes / 4)
    }

    /// Takes items, each with its line (whose line breaks are escaped), from the page's first on, while they
    /// fit beside `head`, the size of what else is told. Takes at least one.
    pub fn fill<T: Serialize>(&self, head: usize, items: impl IntoIterator<Item = (String, T)>) -> Filled<T> {
        let mut filled = Filled { lines: String::new(), items: Vec::new(), cursor: None };
        let mut left = self.bytes.saturating_sub(FRAME + head);
        for (i, (line, item)) in items.into_iter().enumerate().skip(self.from) {
            let line = visible::line(&line);
            let need = json_bytes(&line) + json_bytes(&item);
            if need > left && !filled.items.is_empty() {
                filled.cursor = Some(i.to_string());
                break;
            }
            left = left.saturating_sub(need);
            filled.lines.push_str(&line);
            filled.lines.push('\n');
            filled.items.push(item);
        }
        filled
    }
}

/// Size of a value as JSON, bytes.
pub fn json_bytes(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |t| t.len())
}

/// A text of at most `bytes` bytes; a cut one ends in `...`.
pub fn clip(text: &str, bytes: usize) -> String {
    const CUT: &str = "...";
    if text.len() <= bytes {
        return text.to_string();
    }
    let end = (0..=bytes.saturating_sub(CUT.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    text.get(..end).unwrap_or_default().to_string() + CUT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_takes_what_fits_and_says_where_the_rest_begins() {
        let items = || (0..100).map(|i| (format!("line {i}"), i));
        let first = Page::new(None, Some(500)).unwrap().fill(0, items());
        // 500 - 150 bytes; 8 + 1 bytes for each of the first ten items, 9 + 2 for the others
        assert_eq!((first.items.len(), first.cursor.as_deref()), (33, Some("33")));
        let next = Page::new(Some("33"), Some(500)).unwrap().fill(0, items());
        assert_eq!((next.items.first(), next.cursor.as_deref()), (Some(&33), Some("64")));
        let last = Page::new(Some("99"), None).unwrap().fill(0, items());
        assert_eq!((last.items, last.cursor), (vec![99], None));
    }

    #[test]
    fn an_item_that_is_too_large_is_told_alone() {
        let items = || ["a".repeat(9000), "b".to_string()].map(|t| (String::new(), t));
        let page = Page::new(None, None).unwrap().fill(0, items());
        assert_eq!((page.items.len(), page.cursor.as_deref()), (1, Some("1")));
    }

    #[test]
    fn cursors_and_sizes_of_others_are_refused() {
        assert!(Page::new(Some("-1"), None).is_err() && Page::new(Some("x"), None).is_err());
        assert!(Page::new(None, Some(10)).is_err() && Page::new(None, Some(1 << 30)).is_err());
    }

    #[test]
    fn a_name_cannot_forge_rows_of_the_text_and_is_exact_in_the_content() {
        let name = "a\n2 | forged \u{1b}[2J\u{202e}";
        let filled = Page::new(None, None).unwrap().fill(0, [(name.to_string(), name.to_string())]);
        let told = Told { text: format!("name\n{}", filled.lines), answer: filled.items, cursor: None };
        let result = result(Ok(told));
        assert_eq!(result.structured_content.unwrap()["answer"][0], name);
        let text = result.content[0].as_text().unwrap().text.clone();
        assert_eq!(text, "name\na\\n2 | forged \\u{1b}[2J\\u{202e}");
        let refused = super::result::<Value>(Err(Refusal::refused("no `x\nhint: y`")));
        assert_eq!(refused.content[0].as_text().unwrap().text, "refused: no `x\\nhint: y`");
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(clip("ééééé", 8), "éé...");
        assert_eq!(clip("short", 8), "short");
    }

    #[test]
    fn no_answer_is_not_an_error_and_a_wrong_request_is() {
        let none = result::<Value>(Err(Refusal::cannot_answer("one step only").hint("record more")));
        assert_eq!(none.is_error, Some(false));
        let content = none.structured_content.unwrap();
        assert_eq!(content["status"], "cannot_answer");
        assert_eq!((&content["reason"], &content["hint"]), (&"one step only".into(), &"record more".into()));
        assert_eq!(result::<Value>(Err(Refusal::refused("no"))).is_error, Some(true));
    }
}
