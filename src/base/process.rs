//! Memory of this process, as the operating system counts it, and the return of what was freed.

/// The number of a line of a file of `/proc` that starts with `word`, such as `VmRSS:   1000 kB`.
pub fn number_after(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix(word))?.trim().trim_end_matches("kB").trim().parse().ok()
}

/// Memory of this process that no file backs, bytes; `None` where the system does not tell it.
pub fn own_memory() -> Option<u64> {
    status("RssAnon:")
}

/// Memory of this process that is in RAM, with the pages of the program, bytes; `None` where the system does
/// not tell it.
pub fn resident_memory() -> Option<u64> {
    status("VmRSS:")
}

#[cfg(target_os = "linux")]
fn status(word: &str) -> Option<u64> {
    number_after(&std::fs::read_to_string("/proc/self/status").ok()?, word).map(|kib| kib << 10)
}

#[cfg(not(target_os = "linux"))]
fn status(_: &str) -> Option<u64> {
    None
}

/// Returns the freed memory that the allocator keeps for later to the operating system. Each thread of glibc
/// frees into a heap of its own, of which only the end is returned by itself.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the allocator is asked through a C function")]
pub fn return_freed_memory() {
    // SAFETY: malloc_trim takes the locks of the heaps itself, and releases pages without allocations only.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Other allocators decide by themselves when they return memory.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn return_freed_memory() {}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    // One test, because two would see each other's memory.
    #[test]
    fn filled_memory_is_seen_and_freed_memory_is_returned() {
        let before = own_memory().expect("a size");
        // Blocks of 64 KiB have no mapping of their own. Without `black_box` the compiler leaves out what
        // nobody reads.
        let mut blocks: Vec<Vec<u8>> = (0..1600).map(|_| std::hint::black_box(vec![1u8; 64 << 10])).collect();
        let filled = own_memory().expect("a size");
        assert!(filled > before + (50 << 20), "{before} bytes before, {filled} after");
        assert!(resident_memory() > own_memory());
        // The last block keeps the allocator from returning the others by itself.
        let last = blocks.pop();
        blocks.clear();
        return_freed_memory();
        let left = own_memory().expect("a size");
        assert!(left + (50 << 20) < filled, "{filled} bytes filled, {left} left");
        assert!(last.is_some_and(|l| l.len() > 1));
    }
}
