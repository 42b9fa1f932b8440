//! Tables: declaration, construction row by row, reading and documentation. The data is stored in Arrow
//! arrays.

pub mod cells;
pub mod checked;
pub mod column;
pub mod compare;
pub mod declare;
pub mod format;
mod groups;
pub mod role;
pub mod rollup;
pub mod schema;
pub mod stored;
pub mod typed;
pub mod value;
pub mod view;
pub mod view_cells;
pub mod view_rows;
mod view_shown;
pub mod windows;
