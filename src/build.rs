//! Links the program at a fixed address on Linux.
//!
//! A position-independent program of this size has 350,000 addresses that the loader adjusts at each start.
//! That takes 4 ms, and 6 MB of memory that no other process shares. Libraries, the heap and stacks are
//! placed at random addresses all the same.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=src/build.rs");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
