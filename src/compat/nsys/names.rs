//! Names of operations and of memory, as nsys prints them.

/// The operation of a copy or set: `[CUDA memcpy Host-to-Device]` for `Memcpy HtoD (Pageable -> Device)`.
pub(crate) fn operation(name: &str) -> &'static str {
    if name.to_ascii_lowercase().contains("memset") || name.starts_with("Fill") {
        return "[CUDA memset]";
    }
    let direction = name.strip_prefix("Memcpy ").unwrap_or(name).split(' ').next().unwrap_or_default();
    match direction {
        "HtoD" => "[CUDA memcpy Host-to-Device]",
        "DtoH" => "[CUDA memcpy Device-to-Host]",
        "DtoD" => "[CUDA memcpy Device-to-Device]",
        "PtoP" => "[CUDA memcpy Peer-to-Peer]",
        "HtoH" => "[CUDA memcpy Host-to-Host]",
        "HtoA" => "[CUDA memcpy Host-to-Array]",
        "AtoH" => "[CUDA memcpy Array-to-Host]",
        "AtoA" => "[CUDA memcpy Array-to-Array]",
        "AtoD" => "[CUDA memcpy Array-to-Device]",
        "DtoA" => "[CUDA memcpy Device-to-Array]",
        _ => "[CUDA memcpy Unknown]",
    }
}

/// Source and target memory of a copy (`Pageable`, `Device`); of a set, its memory.
pub(crate) fn memory_kinds(name: &str) -> (Option<&str>, Option<&str>) {
    let Some(inside) = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')) else {
        return (None, None);
    };
    match inside.split_once("->") {
        Some((source, target)) => (Some(source.trim()), Some(target.trim())),
        None => (Some(inside.trim()), None),
    }
}

/// The numbers of a grid or block as recorded, `[244,1,1]`.
pub(crate) fn dimensions(recorded: &str) -> Vec<&str> {
    recorded.trim_matches(['[', ']']).split(',').map(str::trim).collect()
}

/// A grid or block as nsys prints it: the numbers with blanks between them.
pub(crate) fn shown_dimensions(recorded: Option<&str>) -> String {
    recorded.map(|text| dimensions(text).join(" ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_kinds_of_memory_follow_from_the_name() {
        assert_eq!(operation("Memcpy HtoD (Pageable -> Device)"), "[CUDA memcpy Host-to-Device]");
        assert_eq!(operation("Memcpy DtoD"), "[CUDA memcpy Device-to-Device]");
        assert_eq!(operation("Memset (Device)"), "[CUDA memset]");
        assert_eq!(operation("dma_request"), "[CUDA memcpy Unknown]");
        assert_eq!(memory_kinds("Memcpy HtoD (Pageable -> Device)"), (Some("Pageable"), Some("Device")));
        assert_eq!(memory_kinds("Memset (Device)"), (Some("Device"), None));
        assert_eq!(memory_kinds("Memcpy DtoD"), (None, None));
        assert_eq!(dimensions("[244, 1,2]"), ["244", "1", "2"]);
    }
}
