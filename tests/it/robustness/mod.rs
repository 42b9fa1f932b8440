//! Damaged, hostile, odd and random input, and what must hold for any input.

pub mod broken;
pub mod brute;
pub mod corpus;
pub mod cuspy;
pub mod cut_files;
pub mod damage;
pub mod events;
pub mod faults;
pub mod folders;
pub mod growth;
pub mod hostile;
pub mod invariants;
pub mod nsys;
pub mod nvprof;
pub mod perfetto;
pub mod perfetto_bombs;
pub mod random;
pub mod recorders;
pub mod results;
pub mod shapes;
pub mod subtract;
pub mod unusable;
