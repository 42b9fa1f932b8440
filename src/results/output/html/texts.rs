//! The page's names and sentences, each stored once.
//!
//! Sections are built in parallel, each with its own texts. Merged in order, they give the same result as
//! building the sections one after the other.

use crate::output::html::grid::{Cell, Grid};
use hashbrown::HashMap;
use hta_base::table::column::Column;
use hta_base::table::schema::Table;
use hta_base::table::value::Value;

/// Longest text in the page, bytes; longer ones are cut.
const LONGEST: usize = 600;
/// Total size of texts above which further ones are cut to [`SHORT`], bytes.
const ROOM: usize = 1_200_000;
const SHORT: usize = 60;

#[derive(Default)]
pub(crate) struct Texts {
    /// Index and largest length of each text.
    all: HashMap<Box<str>, (u32, usize)>,
}

impl Texts {
    /// The cell of a text.
    pub(crate) fn cell(&mut self, text: &str) -> Cell {
        self.cut_at(text, LONGEST)
    }

    /// The cell of a sentence, which is never cut.
    pub(crate) fn whole(&mut self, text: &str) -> Cell {
        self.cut_at(text, usize::MAX)
    }

    pub fn of(&mut self, text: Option<&str>) -> Cell {
        text.map_or(Cell::Nothing, |t| self.cell(t))
    }

    /// The cell of a value of a table.
    pub(crate) fn value(&mut self, value: &Value) -> Cell {
        match value {
            Value::Null => Cell::Nothing,
            Value::Int(_) => value.int().into(),
            Value::Float(v) => (*v).into(),
            Value::Text(text) => self.cell(text),
        }
    }

    /// The grid of a table that the page alone shows.
    pub(crate) fn grid<T: Table>(&mut self, table: T) -> Grid {
        let batch = table.batch();
        let columns: Vec<Column> = T::SPEC.columns.iter().filter_map(|c| batch.column(c.name)).collect();
        let mut grid = Grid::whole(T::SPEC);
        for row in 0..batch.len() {
            grid.push(columns.iter().map(|column| self.value(&Value::of(column, row))));
        }
        grid
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

/// Texts of the page. Kernel names can have thousands of characters. Texts that do not fit are cut and
/// counted; the Parquet tables have the complete texts.
#[derive(Default)]
pub(crate) struct PageTexts {
    places: HashMap<Box<str>, u32>,
    texts: Vec<String>,
    bytes: usize,
    cut: usize,
}

impl PageTexts {
    /// Adds the texts of the next section, and returns their indices in the page.
    pub(crate) fn add(&mut self, section: Texts) -> Vec<u32> {
        let mut new: Vec<(u32, Box<str>, usize)> =
            section.all.into_iter().map(|(t, (at, most))| (at, t, most)).collect();
        new.sort_unstable_by_key(|(at, ..)| *at);
        new.into_iter().map(|(_, text, most)| self.place(text, most)).collect()
    }

    /// The indices in the page of the texts of a section; `u32::MAX` for those that it does not have.
    pub fn find(&self, section: &Texts) -> Vec<u32> {
        let mut out = vec![u32::MAX; section.all.len()];
        for (text, (at, _)) in &section.all {
            if let Some((place, known)) = out.get_mut(*at as usize).zip(self.places.get(text)) {
                *place = *known;
            }
        }
        out
    }

    fn place(&mut self, text: Box<str>, most: usize) -> u32 {
        if let Some(place) = self.places.get(&text) {
            return *place;
        }
        let most = if self.bytes > ROOM { SHORT.min(most) } else { most };
        let shown = if text.len() > most {
            self.cut += 1;
            let end = (0..=most).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
            format!("{}…", text.get(..end).unwrap_or_default())
        } else {
            text.to_string()
        };
        // Size in JSON and HTML: up to six bytes for a character that is escaped.
        let grows = shown.bytes().filter(|b| *b < b' ' || b"<>&\"\\".contains(b)).count();
        self.bytes += shown.len() + 5 * grows;
        let place = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(shown);
        self.places.insert(text, place);
        place
    }

    /// Number of texts that were cut.
    pub(crate) fn cut(&self) -> usize {
        self.cut
    }

    pub(crate) fn texts(&self) -> &[String] {
        &self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_that_share_texts_share_their_places() {
        let (mut first, mut second, mut shown) = (Texts::default(), Texts::default(), PageTexts::default());
        assert_eq!([first.cell("a"), first.cell("b"), first.cell("a")], [0, 1, 0].map(Cell::Text));
        assert_eq!(
            [second.cell("c"), second.of(Some("a")), second.of(None)],
            [Cell::Text(0), Cell::Text(1), Cell::Nothing]
        );
        assert_eq!(shown.add(first), [0, 1]);
        assert_eq!(shown.find(&second), [u32::MAX, 0]);
        assert_eq!(shown.add(second), [2, 0]);
        assert_eq!((shown.texts(), shown.cut()), (&["a", "b", "c"].map(String::from)[..], 0));
    }

    #[test]
    fn long_names_are_cut_and_sentences_are_not() {
        let (mut texts, mut shown) = (Texts::default(), PageTexts::default());
        // The limit falls in the middle of a two-byte character.
        let long = format!("{}é", "x".repeat(LONGEST - 1));
        let (sentence, many) = ("s".repeat(ROOM + 1), "m".repeat(LONGEST));
        for text in [&long, &many] {
            texts.cell(text);
        }
        texts.whole(&sentence);
        texts.cell(&many.replace('m', "n"));
        shown.add(texts);
        let lengths: Vec<usize> = shown.texts().iter().map(|t| t.chars().count()).collect();
        // Of what is cut, the last character says so.
        assert_eq!(lengths, [LONGEST, LONGEST, ROOM + 1, SHORT + 1]);
        assert_eq!(shown.cut(), 2);
    }
}
