//! Functions of texts. Positions count characters, from 1.

use crate::sql::planner::cells::{RowValue, by_row};
use crate::sql::planner::kinds::{TypedExpr, ValueKind};
use polars::prelude::PolarsResult;
use std::borrow::Cow;

/// Whether a text matches a pattern, in which `%` stands for any text and `_` for one character.
///
/// # Errors
/// Values that are no texts.
pub(crate) fn like(
    text: TypedExpr,
    pattern: TypedExpr,
    escape: Option<TypedExpr>,
    any_case: bool,
) -> PolarsResult<TypedExpr> {
    let mut inputs = vec![text.becomes(ValueKind::Text)?, pattern.becomes(ValueKind::Text)?];
    inputs.push(TypedExpr::bool(any_case));
    inputs.extend(escape);
    Ok(by_row("like", is_like, inputs, ValueKind::Bool))
}

fn is_like<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    let (text, pattern, any_case, escape) = match cells {
        [RowValue::Text(text), RowValue::Text(pattern), RowValue::Bool(any_case)] => {
            (text, pattern, *any_case, None)
        }
        [RowValue::Text(text), RowValue::Text(pattern), RowValue::Bool(any_case), RowValue::Text(escape)] => {
            (text, pattern, *any_case, escape.chars().next())
        }
        _ => return Ok(RowValue::Null),
    };
    let fold = |c: char| if any_case { single_lower(c) } else { c };
    let text: Vec<char> = text.chars().map(fold).collect();
    let mut parts = Vec::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        parts.push(match c {
            _ if Some(c) == escape => PatternPart::Same(fold(
                rest.next().ok_or("a pattern of LIKE ends with its escape character")?,
            )),
            '%' => PatternPart::Any,
            '_' => PatternPart::One,
            _ => PatternPart::Same(fold(c)),
        });
    }
    Ok(RowValue::Bool(matches(&text, &parts)))
}

#[derive(PartialEq)]
enum PatternPart {
    Same(char),
    One,
    Any,
}

/// Goes on behind the last `%` when a part does not fit, so that the time is at most their product.
fn matches(text: &[char], parts: &[PatternPart]) -> bool {
    let (mut at, mut part) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while at < text.len() {
        match parts.get(part) {
            Some(PatternPart::Any) => {
                part += 1;
                again = Some((at, part));
            }
            Some(p) if *p == PatternPart::One || *p == PatternPart::Same(text[at]) => {
                at += 1;
                part += 1;
            }
            _ => match &mut again {
                Some((from, next)) => {
                    *from += 1;
                    (at, part) = (*from, *next);
                }
                None => return false,
            },
        }
    }
    parts[part..].iter().all(|p| *p == PatternPart::Any)
}

/// The texts of a row in one; missing ones are left out.
pub(crate) fn joined<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    Ok(RowValue::Text(cells.iter().filter_map(text).collect::<String>().into()))
}

/// The same with the first text between them; missing if that is missing.
pub(crate) fn joined_with<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    let Some((RowValue::Text(between), rest)) = cells.split_first() else { return Ok(RowValue::Null) };
    Ok(RowValue::Text(rest.iter().filter_map(text).collect::<Vec<_>>().join(between).into()))
}

fn text<'c>(cell: &'c RowValue<'_>) -> Option<&'c str> {
    if let RowValue::Text(text) = cell { Some(text) } else { None }
}

/// The text of an argument.
fn argument<'c>(cells: &'c [RowValue<'_>], at: usize) -> &'c str {
    cells.get(at).and_then(text).unwrap_or_default()
}

fn number(cells: &[RowValue<'_>], at: usize) -> Option<i64> {
    if let Some(RowValue::Int(number)) = cells.get(at) { Some(*number) } else { None }
}

fn made<'a>(text: impl Into<String>) -> Result<RowValue<'a>, String> {
    Ok(RowValue::Text(Cow::Owned(text.into())))
}

fn count(text: &str) -> i64 {
    text.chars().count() as i64
}

pub(crate) fn length<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    Ok(RowValue::Int(count(argument(cells, 0))))
}

/// The one other case of a character; itself if that has several characters.
fn single(c: char, mut cased: impl Iterator<Item = char>) -> char {
    match (cased.next(), cased.next(), c) {
        (Some(one), None, _) => one,
        (.., 'ß') => 'ẞ',
        (.., 'İ') => 'i',
        _ => c,
    }
}

fn single_lower(c: char) -> char {
    single(c, c.to_lowercase())
}

pub(crate) fn upper<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    made(argument(cells, 0).chars().map(|c| single(c, c.to_uppercase())).collect::<String>())
}

pub(crate) fn lower<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    made(argument(cells, 0).chars().map(single_lower).collect::<String>())
}

/// The text without blanks, or the characters of a second text, at its ends.
pub(crate) fn trimmed<'a>(cells: &[RowValue<'a>], start: bool, end: bool) -> RowValue<'a> {
    let all = if cells.len() > 1 { argument(cells, 1) } else { " " };
    let mut text = argument(cells, 0);
    if start {
        text = text.trim_start_matches(|c| all.contains(c));
    }
    if end {
        text = text.trim_end_matches(|c| all.contains(c));
    }
    RowValue::Text(text.to_string().into())
}

/// The characters from `from` (0 is the first) to before `to`, where there are any.
fn between(text: &str, from: i64, to: i64) -> String {
    let from = from.max(0);
    let wanted = usize::try_from(to.saturating_sub(from)).unwrap_or(0);
    text.chars().skip(usize::try_from(from).unwrap_or(usize::MAX)).take(wanted).collect()
}

/// From a position, which counts from the end if it is negative, with a length, which goes back from there
/// if it is negative.
pub(crate) fn substring<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    let text = argument(cells, 0);
    let (start, length) = (number(cells, 1).unwrap_or(1), number(cells, 2));
    let from = if start < 0 { count(text).saturating_add(start) } else { start - 1 };
    let to = length.map_or(i64::MAX, |length| from.saturating_add(length));
    made(between(text, from.min(to), to.max(from)))
}

pub(crate) fn left<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    let (text, wanted) = (argument(cells, 0), number(cells, 1).unwrap_or(0));
    made(between(text, 0, if wanted < 0 { count(text).saturating_add(wanted) } else { wanted }))
}

pub(crate) fn right<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    let (text, wanted) = (argument(cells, 0), number(cells, 1).unwrap_or(0));
    let from = if wanted < 0 { wanted.saturating_neg() } else { count(text).saturating_sub(wanted) };
    made(between(text, from, i64::MAX))
}

pub(crate) fn replace<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    match argument(cells, 1) {
        "" => made(argument(cells, 0)),
        wanted => made(argument(cells, 0).replace(wanted, argument(cells, 2))),
    }
}

pub(crate) fn reverse<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    let text = argument(cells, 0);
    // From here on there are marks that belong to the character before them.
    if text.chars().any(|c| c >= '\u{300}') {
        return Err("REVERSE is not supported for texts with such characters".to_string());
    }
    made(text.chars().rev().collect::<String>())
}

/// Where a text begins in another; 0 if it does not occur.
pub(crate) fn position<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    let text = argument(cells, 0);
    Ok(RowValue::Int(text.find(argument(cells, 1)).map_or(0, |at| count(&text[..at]) + 1)))
}

pub(crate) fn starts_with<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    Ok(RowValue::Bool(argument(cells, 0).starts_with(argument(cells, 1))))
}

pub(crate) fn ends_with<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    Ok(RowValue::Bool(argument(cells, 0).ends_with(argument(cells, 1))))
}

pub(crate) fn contains<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    Ok(RowValue::Bool(argument(cells, 0).contains(argument(cells, 1))))
}

/// Longest text that a function may make, characters.
const LONGEST: i64 = 1 << 16;

pub(crate) fn padded<'a>(cells: &[RowValue<'a>], at_start: bool) -> Result<RowValue<'a>, String> {
    let (text, wanted, filling) = (argument(cells, 0), number(cells, 1).unwrap_or(0), argument(cells, 2));
    let missing = wanted.saturating_sub(count(text));
    if missing <= 0 {
        return made(between(text, 0, wanted));
    }
    if filling.is_empty() || wanted > LONGEST {
        return Err("LPAD and RPAD need a text to fill with, and a length of at most 65536".to_string());
    }
    let filled: String = filling.chars().cycle().take(usize::try_from(missing).unwrap_or(0)).collect();
    made(if at_start { filled + text } else { text.to_string() + &filled })
}

/// A part of a text between separators, from 1, or from the end if it is negative.
pub(crate) fn split_part<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    let (text, by, wanted) = (argument(cells, 0), argument(cells, 1), number(cells, 2).unwrap_or(0));
    if by.is_empty() {
        return Err("SPLIT_PART needs a separator".to_string());
    }
    let parts: Vec<&str> = text.split(by).collect();
    let at = match wanted {
        0 => return Err("SPLIT_PART counts parts from 1".to_string()),
        1.. => wanted - 1,
        _ => parts.len() as i64 + wanted,
    };
    made(usize::try_from(at).ok().and_then(|at| parts.get(at)).copied().unwrap_or_default())
}
