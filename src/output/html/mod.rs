//! `report.html`: one file for people, made from the tables of a results folder and the findings.
//!
//! It opens offline and can be mailed: the charts' script (Plotly, in `plotly/`), the style and the data are in it, and
//! a policy in its head forbids every load. What is shown is bounded, whatever the number of ranks: each part says what
//! was joined or left out, and which Parquet table has all of it. The tables are read in pieces and summed on the way.
//!
//! `page.html`, `page.css` and the scripts in `script/` are what it looks like; here is what it says.

mod across;
mod axis;
mod breakdown;
mod grid;
mod idle;
mod names;
mod overview;
mod page;
mod results;
mod tally;
mod texts;
mod time;

pub use overview::Found;
pub use page::{Editor, PageOptions, write};
pub use results::{Results, ResultsError};
