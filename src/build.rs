//! How the program is linked, where the linker is known.
//!
//! A position-independent program has each of its pointers written at every start. Polars brings some hundred thousand
//! (tables of methods): sixteen megabytes that every command would read and write before the first byte of a trace, though
//! most never ask anything in SQL. Linked for a fixed place, those pages are read when they are used. Libraries, stack and
//! heap are still placed at random. The names of its functions, which nothing here prints, are half of the file.
//!
//! What `hta analyze` runs is a twentieth of the program and lies all over it; the system brings in 64 KiB around each page
//! that is touched. `link_order.txt` has those functions one behind the other: ten megabytes less in memory, and a start that
//! is faster. Only LLVM's linker takes such a list, so a small program is linked with it first. Names hold a hash of what they
//! were compiled from and by: those that are not found are passed over. `tests/bench/link_order.py` makes the list.

use std::env::var;
use std::path::Path;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo:rerun-if-changed=src/build.rs");
    println!("cargo:rerun-if-changed=src/link_order.txt");
    let target = |what: &str| var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    let is_static = target("FEATURE").split(',').any(|f| f == "crt-static");
    if target("OS") == "linux" && target("ENV") == "gnu" && !is_static {
        println!("cargo:rustc-link-arg-bins=-no-pie");
        println!("cargo:rustc-link-arg-bins=-Wl,-z,relro,-z,now,--strip-all");
        link_in_order();
    }
}

/// Hands the list to the linker, where it takes one. A copy of it, beside what is built: cargo keeps these arguments, and a
/// clone elsewhere that builds into the same folder may be gone, or hold another list, when the program is linked again.
fn link_in_order() {
    let Some(order) = var("OUT_DIR").ok().map(|out| Path::new(&out).join("link_order.txt")) else { return };
    if let Err(e) = std::fs::copy("src/link_order.txt", &order) {
        println!("cargo:warning=src/link_order.txt: {e}");
        return;
    }
    let args = [format!("-Wl,--symbol-ordering-file={}", order.display()), "-Wl,--no-warn-symbol-ordering".to_string()];
    if links_with(&args) {
        args.iter().for_each(|arg| println!("cargo:rustc-link-arg-bins={arg}"));
    }
}

/// Whether the linker takes these arguments: an empty program is linked as the real one will be.
fn links_with(args: &[String]) -> bool {
    let (Ok(rustc), Ok(target), Ok(out)) = (var("RUSTC"), var("TARGET"), var("OUT_DIR")) else { return false };
    let source = Path::new(&out).join("empty.rs");
    if std::fs::write(&source, "fn main() {}\n").is_err() {
        return false;
    }
    let mut command = Command::new(rustc);
    command.args(["--edition=2024", "--target", &target, "--out-dir", &out]).arg(&source);
    if let Ok(linker) = var("RUSTC_LINKER") {
        command.arg(format!("-Clinker={linker}"));
    }
    let flags = var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    command.args(flags.split('\u{1f}').filter(|f| !f.is_empty()));
    command.args(args.iter().map(|arg| format!("-Clink-arg={arg}")));
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}
