//! Links the program at a fixed place in memory, on Linux with glibc.
//!
//! A program that can be loaded anywhere has a list of all its own addresses, which are written anew at each start:
//! with a query engine in it that is sixteen megabytes read or written before the first byte of a trace, for every
//! command. Libraries, stack and heap are still placed at random.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let of = |key: &str| std::env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    let is_static = of("FEATURE").split(',').any(|f| f == "crt-static");
    if of("OS") == "linux" && of("ENV") == "gnu" && !is_static {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
