//! How the program is linked, where the linker is known.
//!
//! A position-independent program has each of its pointers written at every start. Polars brings some hundred thousand
//! (tables of methods): sixteen megabytes that every command would read and write before the first byte of a trace, though
//! most never ask anything in SQL. Linked for a fixed place, those pages are read when they are used. Libraries, stack and
//! heap are still placed at random. The names of its functions, which nothing here prints, are half of the file.
//!
//! What `hta analyze` runs is a twentieth of the program and lies all over it, as do the constants that it reads; the system
//! brings in 64 KiB around each page that is touched. `link_order.txt` has those functions one behind the other, and those
//! constants (tables of methods, texts): eleven megabytes less in memory, and a start that is faster. Only LLVM's linker takes
//! such lists, so a small program is linked with them first. Names hold a hash of what they were compiled from and by: those
//! that are not found are passed over. `tests/bench/link_order.py` makes the list.

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

/// Hands the list to the linker, as far as it takes it. What it reads lies beside what is built: cargo keeps these arguments,
/// and a clone elsewhere that builds into the same folder may be gone, or hold another list, when the program is linked again.
fn link_in_order() {
    let Ok(list) = std::fs::read_to_string("src/link_order.txt") else { return };
    let Ok(out) = var("OUT_DIR") else { return };
    let (constants, functions): (Vec<&str>, Vec<&str>) = list.lines().partition(|line| line.starts_with('.'));
    let (order, script) = (Path::new(&out).join("functions.txt"), Path::new(&out).join("constants.ld"));
    for (path, text) in [(&order, functions.join("\n")), (&script, constants_first(&constants))] {
        if let Err(e) = std::fs::write(path, text) {
            println!("cargo:warning={}: {e}", path.display());
            return;
        }
    }
    let mut args = Vec::new();
    let for_functions = format!("-Wl,--symbol-ordering-file={},--no-warn-symbol-ordering", order.display());
    for arg in [for_functions, format!("-Wl,-T,{}", script.display())] {
        args.push(arg);
        if !links_with(&args) {
            return;
        }
        println!("cargo:rustc-link-arg-bins={}", args[args.len() - 1]);
    }
}

/// A script that puts the listed sections of constants before the others; all other places stay the linker's.
///
/// Constants have no symbols that could be ordered. A line is the name of a section, or the start that several have in common
/// and the rest of each. Names in quotes are compared as they are, which is much faster than as patterns.
fn constants_first(lines: &[&str]) -> String {
    let mut text = String::new();
    // behind the program's headers, which every start touches, not behind the exception tables: a system that maps files in
    // large parts maps one, where it would map two
    for (section, next) in [(".rodata", ".gcc_except_table"), (".data.rel.ro", ".dynamic")] {
        text += &format!("SECTIONS {{ {section} : {{ *(\n");
        for line in lines.iter().filter(|line| line.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'))) {
            let (start, rests) = line.split_once(' ').unwrap_or((line, ""));
            if rests.is_empty() {
                text += &format!("\"{start}\"\n");
            }
            rests.split(' ').filter(|rest| !rest.is_empty()).for_each(|rest| text += &format!("\"{start}.{rest}\"\n"));
        }
        text += &format!(") }} }} INSERT BEFORE {next};\n");
    }
    text
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
