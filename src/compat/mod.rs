//! Reproduces results of other tools and of published methods by their own definitions, so that users can compare hta
//! with numbers that they already have.
//!
//! Each such result is called an answer. An answer is an analysis of its own with the stem of the hta analysis that it
//! replaces in a run ([`chosen`]). No analysis knows that another one exists.

/// Implements the descriptive methods of an answer: the tool whose definitions it uses, its stem, its title, its page
/// (the file `STEM.md` beside it) and its tables.
macro_rules! head {
    ($tool:expr, $stem:literal, $title:literal, [$($table:ident),+]) => {
        fn stem(&self) -> &'static str {
            $stem
        }

        fn title(&self) -> &'static str {
            $title
        }

        fn explain(&self) -> &'static str {
            include_str!(concat!($stem, ".md"))
        }

        fn tables(&self) -> &'static [&'static $crate::table::schema::TableSpec] {
            &[$($table::SPEC),+]
        }

        fn definitions(&self) -> Option<&'static str> {
            $tool
        }
    };
}

pub mod hta;
mod osdi25;
mod registry;
mod shown;
mod tensorboard;
mod tracelens;

pub use registry::{ANSWERS, Compat, chosen, find, of};
