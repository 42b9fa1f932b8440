//! The page's names and sentences, each once.
//!
//! Sections are made side by side, each with texts of its own; put together in order, they are what one section after the
//! other would have made.

use crate::output::html::grid::Cell;
use std::collections::HashMap;

/// A text in the page is cut to so many bytes.
const LONGEST: usize = 600;
/// When all texts take so many, further ones are cut to [`SHORT`].
const ROOM: usize = 1_200_000;
const SHORT: usize = 60;

/// Texts of a section.
#[derive(Default)]
pub struct Texts {
    /// Place and most bytes of each.
    all: HashMap<Box<str>, (u32, usize)>,
}

impl Texts {
    /// The cell of a text.
    pub fn cell(&mut self, text: &str) -> Cell {
        self.cut_at(text, LONGEST)
    }

    /// The cell of a text that is never cut: a sentence of ours.
    pub fn whole(&mut self, text: &str) -> Cell {
        self.cut_at(text, usize::MAX)
    }

    pub fn of(&mut self, text: Option<&str>) -> Cell {
        text.map_or(Cell::Nothing, |t| self.cell(t))
    }

    fn cut_at(&mut self, text: &str, most: usize) -> Cell {
        if let Some((place, _)) = self.all.get(text) {
            return Cell::Text(*place);
        }
        let place = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.insert(text.into(), (place, most));
        Cell::Text(place)
    }
}

/// Texts of the page. Kernel names can be thousands of characters long: what does not fit is cut, counted, and whole in the
/// Parquet table.
#[derive(Default)]
pub struct Shown {
    places: HashMap<Box<str>, u32>,
    texts: Vec<String>,
    bytes: usize,
    cut: usize,
}

impl Shown {
    /// Adds the texts of the next section; their places here, in order of those there.
    pub fn add(&mut self, section: Texts) -> Vec<u32> {
        let mut new: Vec<(u32, Box<str>, usize)> =
            section.all.into_iter().map(|(t, (at, most))| (at, t, most)).collect();
        new.sort_unstable_by_key(|(at, ..)| *at);
        new.into_iter().map(|(_, text, most)| self.place(text, most)).collect()
    }

    fn place(&mut self, text: Box<str>, most: usize) -> u32 {
        if let Some(place) = self.places.get(&text) {
            return *place;
        }
        let most = if self.bytes > ROOM { SHORT.min(most) } else { most };
        let shown = if text.len() > most {
            self.cut += 1;
            let end = (0..=most).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
            format!("{}… ({} characters)", text.get(..end).unwrap_or_default(), text.chars().count())
        } else {
            text.to_string()
        };
        // what JSON and HTML make of a character: up to six
        let grows = shown.bytes().filter(|b| *b < b' ' || b"<>&\"\\".contains(b)).count();
        self.bytes += shown.len() + 5 * grows;
        let place = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(shown);
        self.places.insert(text, place);
        place
    }

    /// How many were cut.
    pub fn cut(&self) -> usize {
        self.cut
    }

    pub fn texts(&self) -> &[String] {
        &self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_that_share_texts_share_their_places() {
        let (mut first, mut second, mut shown) = (Texts::default(), Texts::default(), Shown::default());
        assert_eq!([first.cell("a"), first.cell("b"), first.cell("a")], [0, 1, 0].map(Cell::Text));
        assert_eq!(
            [second.cell("c"), second.of(Some("a")), second.of(None)],
            [Cell::Text(0), Cell::Text(1), Cell::Nothing]
        );
        assert_eq!((shown.add(first), shown.add(second)), (vec![0, 1], vec![2, 0]));
        assert_eq!((shown.texts(), shown.cut()), (&["a", "b", "c"].map(String::from)[..], 0));
    }

    #[test]
    fn long_names_are_cut_and_sentences_are_not() {
        let (mut texts, mut shown) = (Texts::default(), Shown::default());
        // a cut would go through the middle of its second byte
        let long = format!("{}é", "x".repeat(LONGEST - 1));
        let (sentence, many) = ("s".repeat(ROOM + 1), "m".repeat(LONGEST));
        for text in [&long, &many] {
            texts.cell(text);
        }
        texts.whole(&sentence);
        // no room is left
        texts.cell(&many.replace('m', "n"));
        shown.add(texts);
        let lengths: Vec<usize> = shown.texts().iter().map(|t| t.chars().count()).collect();
        let cut = |to: usize, of: usize| to + format!("… ({of} characters)").chars().count();
        assert_eq!(lengths, [cut(LONGEST - 1, LONGEST), LONGEST, ROOM + 1, cut(SHORT, LONGEST)]);
        assert_eq!(shown.cut(), 2);
    }
}
