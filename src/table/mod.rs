//! Tables: declaration, construction row by row, reading and documentation. The data is stored in Arrow arrays.

pub(crate) mod cells;
pub(crate) mod checked;
pub(crate) mod column;
pub mod declare;
#[cfg(test)]
pub(crate) mod every;
pub mod schema;
pub mod typed;
