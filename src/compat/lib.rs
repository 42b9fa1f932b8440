//! Reproduces results of other tools and of published methods by their own definitions, so that users can
//! compare hta with numbers that they already have.
//!
//! Each such result is called an answer. An answer is an analysis of its own with the stem of the hta
//! analysis that it replaces in a run ([`chosen`]). No analysis knows that another one exists.

/// Describes an answer: the tool whose definitions it uses, its stem, its title, its page (the file `STEM.md`
/// beside it) and its tables, all of which are printed as they are.
macro_rules! head {
    ($tool:expr, $stem:literal, $title:literal, [$($table:ident),+]) => {
        hta_analysis::api::About {
            stem: $stem,
            title: $title,
            explain: include_str!(concat!($stem, ".md")),
            tables: &[$($table::SPEC),+],
            definitions: $tool,
            takes_steps: Option::<&str>::is_none(&$tool),
            views: {
                const VIEWS: &[hta_base::table::view::ViewSpec] =
                    &[$(hta_base::table::view::ViewSpec::whole($table::SPEC)),+];
                VIEWS
            },
            ..hta_analysis::api::About::DEFAULT
        }
    };
}

pub mod hta;
pub mod nsys;
mod osdi25;
pub mod pyprof;
mod registry;
mod tensorboard;
mod tracelens;

pub use registry::{ANSWERS, Compat, chosen, find, of, of_method};
