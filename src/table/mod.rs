//! Tables: how one is declared, built row by row, read and documented. Arrow arrays are the store.

pub(crate) mod cells;
pub(crate) mod checked;
pub(crate) mod column;
#[cfg(test)]
pub(crate) mod every;
pub mod schema;
