//! Answers in the definitions of other tools and of published methods, so that people can check hta against numbers
//! that they have.
//!
//! Each answer is an analysis of its own and has the stem of the analysis that it stands for. A run takes answers in
//! place of hta's own analyses ([`chosen`]); no analysis knows that another one exists.

/// The head of an answer: what it stands for, its page (a file of that name beside it) and its tables.
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
