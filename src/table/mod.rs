//! Tables: how one is declared, built row by row, read and documented. Arrow arrays are the store.

pub mod appended;
pub mod cells;
pub mod checked;
pub mod column;
#[cfg(test)]
pub mod every;
pub mod packed;
pub mod schema;
