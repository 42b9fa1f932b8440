//! The line of a row, for people.

use crate::lines::tables::LineRow;

/// Largest width of a place in print, characters.
const PLACE_WIDTH: usize = 36;

/// The key cells of a line, as all ranks have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LineKey<'a> {
    pub(crate) file: Option<&'a str>,
    pub(crate) line: Option<u32>,
    pub(crate) function: Option<&'a str>,
    pub(crate) module: Option<&'a str>,
}

impl<'a> LineKey<'a> {
    pub(crate) fn new(row: &LineRow<'a>) -> Self {
        Self { file: row.file, line: row.line, function: row.function, module: row.module }
    }

    /// `train.py:12` for a line; `train.py:10 train` for a function, so that terminals link both.
    pub(crate) fn text(&self) -> String {
        match (self.file.or(self.module), self.line, self.function) {
            (Some(file), Some(line), Some(function)) => format!("{file}:{line} {function}"),
            (Some(file), Some(line), None) => format!("{file}:{line}"),
            (file, ..) => file.unwrap_or_default().to_string(),
        }
    }
}

/// The end of a place, which identifies it: a long path loses its front.
pub(crate) fn shown(place: &str) -> String {
    let count = place.chars().count();
    if count <= PLACE_WIDTH {
        return place.to_string();
    }
    let cut = |at: &usize| place.get(*at..).is_some_and(|rest| rest.chars().count() + 3 <= PLACE_WIDTH);
    let at = place.match_indices(['/', '\\']).map(|(at, _)| at).find(cut);
    let at = at.or_else(|| place.char_indices().map(|(at, _)| at).find(cut));
    format!("...{}", place.get(at.unwrap_or(0)..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_loses_its_front() {
        assert_eq!(shown("train.py:12"), "train.py:12");
        let long = "/home/someone/projects/models/attention.py:200 forward";
        assert_eq!(shown(long), ".../models/attention.py:200 forward");
        assert_eq!(shown(&"x".repeat(80)).chars().count(), PLACE_WIDTH);
    }
}
