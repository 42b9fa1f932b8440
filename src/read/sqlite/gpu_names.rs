//! Names of copies, sets and waits as Kineto writes them, from the numbers that databases hold.
//!
//! Kinds of memory are those of nsys. CUPTI's own numbers, which nvprof records, are one higher
//! ([`cupti_memory`]).

/// `Memcpy HtoD (Pageable -> Device)`, from the direction and both kinds of memory.
pub(crate) fn copy_name(kind: Option<i64>, ends: Option<(i64, i64)>) -> String {
    let ends = ends.map(|(from, to)| format!(" ({} -> {})", memory(from), memory(to)));
    format!("Memcpy {}{}", direction(kind), ends.unwrap_or_default())
}

/// `Memset (Device)`, from the kind of memory.
pub(crate) fn set_name(kind: Option<i64>) -> String {
    format!("Memset ({})", kind.map_or("Unknown", memory))
}

/// The kind of memory that CUPTI counts one higher; its 0 is unknown.
pub(crate) fn cupti_memory(kind: i64) -> i64 {
    kind.saturating_sub(1)
}

/// Name of a kind of synchronization (`syncType`).
pub(crate) fn wait_name(kind: Option<i64>) -> &'static str {
    match kind {
        Some(1) => "Event Sync",
        Some(2) => "Stream Wait Event",
        Some(3) => "Stream Sync",
        Some(4) => "Context Sync",
        _ => "Sync",
    }
}

/// Name of a direction of copies (`copyKind`).
fn direction(kind: Option<i64>) -> &'static str {
    match kind {
        Some(1 | 11) => "HtoD",
        Some(2 | 12) => "DtoH",
        Some(3) => "HtoA",
        Some(4) => "AtoH",
        Some(5) => "AtoA",
        Some(6) => "AtoD",
        Some(7) => "DtoA",
        Some(8 | 13) => "DtoD",
        Some(9) => "HtoH",
        Some(10) => "PtoP",
        _ => "Unknown",
    }
}

/// Name of a kind of memory (`memKind` of nsys), as Kineto writes it.
fn memory(kind: i64) -> &'static str {
    match kind {
        0 => "Pageable",
        1 => "Pinned",
        2 => "Device",
        3 => "Array",
        4 => "Managed",
        5 => "Device Static",
        6 => "Managed Static",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_cupti_are_one_higher() {
        let cupti = |from, to| copy_name(Some(2), Some((cupti_memory(from), cupti_memory(to))));
        assert_eq!(cupti(3, 1), "Memcpy DtoH (Device -> Pageable)");
        assert_eq!(cupti(3, 2), "Memcpy DtoH (Device -> Pinned)");
        assert_eq!(cupti(0, i64::MIN), "Memcpy DtoH (Unknown -> Unknown)");
        assert_eq!(copy_name(Some(1), None), "Memcpy HtoD");
        assert_eq!(set_name(Some(cupti_memory(3))), "Memset (Device)");
    }
}
