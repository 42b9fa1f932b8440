//! How the program is linked, where the linker is known.
//!
//! A position-independent program has each of its pointers written at every start. Polars brings some hundred thousand
//! (tables of methods): ten megabytes of memory that every command would take, most of which never asks anything in SQL.
//! Linked for a fixed place, those pages are read from the file when they are used. The names of its functions, which
//! nothing here prints, are half of the file.

fn main() {
    println!("cargo:rerun-if-changed=src/build.rs");
    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo:rustc-link-arg-bins=-no-pie");
        println!("cargo:rustc-link-arg-bins=-Wl,--strip-all");
    }
}
