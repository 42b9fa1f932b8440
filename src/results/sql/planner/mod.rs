//! Plans of statements: what SQL means, in the operations of Polars.
//!
//! A statement means here what it means in DuckDB. Missing values sort last, `/` divides as floats and `%`
//! has the sign of the dividend, halves are rounded away from zero, a sum of integers that does not fit in 64
//! bits is an error, and `SUM` of no rows is NULL. What this module does not know is refused by its name:
//! nothing is passed on in the hope that Polars means the same.
//!
//! Inside a plan each column has a name of its own ([`names`]), so joins never rename any. [`query`] makes
//! the plan of a query of [`select`]s, whose FROM is of [`joins`]; [`expressions`] gives values and their
//! kinds ([`kinds`], [`casts`]), with the [`functions`] of numbers and [`texts`]; [`aggregates`] and
//! [`windows`] are computed before the SELECT that uses them.

mod aggregates;
mod casts;
mod cells;
mod expressions;
mod functions;
mod groups;
mod items;
mod joins;
mod kinds;
mod literals;
mod names;
mod numbers;
mod operators;
mod order;
pub(crate) mod query;
mod select;
mod subqueries;
mod texts;
mod window_calls;
mod windows;
