//! The `hta` binary: hands its arguments to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    hta::cli::main(std::env::args_os())
}
