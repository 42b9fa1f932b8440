//! Commands as users type them: what they print, write and refuse.

pub mod commands;
pub mod completions;
pub mod csv;
pub mod diff;
pub mod docs;
pub mod filters;
pub mod first_screen;
pub mod goldens;
pub mod html;
pub mod mcp;
pub mod nsys_stats;
pub mod of_results;
pub mod one_analysis;
pub mod only;
pub mod other_columns;
pub mod overlay;
pub mod picture;
pub mod queries;
pub mod schema_page;
pub mod words;
