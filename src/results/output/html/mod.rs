//! `report.html`: one self-contained file for people, made from the tables of a results folder and the
//! findings.
//!
//! It contains the script of the charts (Plotly, in `plotly/`), its style and its data, and a policy in its
//! head forbids loading anything and running any script but its own. The size is bounded for any number of
//! ranks: each part says what was merged or left out, and which Parquet table has all of it. Tables are read
//! in chunks and summed while reading.
//!
//! `page.html`, `page.css` and the JavaScript modules in `script/` define the look; this module provides the
//! data. The modules stand in the page as texts, and an import map made of them when the page opens gives
//! each its address.

mod account;
mod across;
mod against;
mod axis;
mod beside;
mod breakdown;
mod causes;
mod detailed;
mod entries;
mod experts;
mod flame;
mod grid;
mod heat;
mod idle;
mod iterations;
mod lane;
mod lines;
mod memory;
mod modules;
mod names;
mod overview;
mod page;
mod parts;
mod pipelines;
mod places;
#[cfg(test)]
mod policy;
mod sections;
mod tally;
mod texts;
mod time;
mod timeline;
mod trust;

pub use against::Against;
pub use page::{Editor, PageOptions, write};
