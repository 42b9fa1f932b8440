//! How the program is linked, where the linker is known.
//!
//! A position-independent program has each of its pointers written at every start. Polars brings some hundred thousand
//! (tables of methods): sixteen megabytes that every command would read and write before the first byte of a trace, though
//! most never ask anything in SQL. Linked for a fixed place, those pages are read when they are used. Libraries, stack and
//! heap are still placed at random. The names of its functions, which nothing here prints, are half of the file.

fn main() {
    println!("cargo:rerun-if-changed=src/build.rs");
    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    let is_static = target("FEATURE").split(',').any(|f| f == "crt-static");
    if target("OS") == "linux" && target("ENV") == "gnu" && !is_static {
        println!("cargo:rustc-link-arg-bins=-no-pie");
        println!("cargo:rustc-link-arg-bins=-Wl,--strip-all");
    }
}
