//! The `hta` binary: tells the allocator how it is used, and hands its arguments to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    give_back_what_is_freed();
    hta::cli::main(std::env::args_os())
}

/// Freed blocks of this size go back to the system at once, and so does what is free behind the others.
///
/// glibc takes the size of what is freed for a sign that blocks like it will be asked for again, and from then on keeps
/// them. A rank's columns and what each analysis makes of them have all sizes and come once: what one of them has left
/// would be there beside the next, a third of all memory.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn give_back_what_is_freed() {
    const OF_ITS_OWN: libc::c_int = 256 << 10;
    const BEHIND: libc::c_int = 1 << 20;
    // SAFETY: two numbers, of which the allocator takes note; no other thread runs yet. What it does not take, it ignores.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OF_ITS_OWN);
        libc::mallopt(libc::M_TRIM_THRESHOLD, BEHIND);
    }
}
