//! Kinds of collectives and directions of copies in the words of names.

use crate::category::Class;

/// Kind of collective in the text of a kernel, operator or argument: `all_reduce`, `send_recv`, ...
pub fn collective_kind(text: &str) -> Option<&'static str> {
    let flat: String =
        text.chars().filter(|c| *c != '_' && *c != '-').map(|c| c.to_ascii_lowercase()).collect();
    const KINDS: [(&str, &str); 18] = [
        ("allreduce", "all_reduce"),
        ("crossdevicereduce", "all_reduce"),
        ("allgather", "all_gather"),
        ("reducescatter", "reduce_scatter"),
        ("alltoall", "all_to_all"),
        ("sendrecv", "send_recv"),
        ("broadcast", "broadcast"),
        ("barrier", "barrier"),
        // Before an exchange of tokens its sizes are agreed on; what a rank counts for that is its own work.
        ("notify", "barrier"),
        ("combinesync", "barrier"),
        ("dispatchlayout", "unknown"),
        ("scatter", "scatter"),
        ("gather", "gather"),
        ("reduce", "reduce"),
        ("send", "send"),
        ("recv", "recv"),
        ("dispatch", "all_to_all"),
        ("combine", "all_to_all"),
    ];
    KINDS.iter().find(|(key, _)| flat.contains(key)).map(|(_, kind)| *kind)
}

/// Direction of a copy from its name (`Memcpy HtoD (Pageable -> Device)`), `set` for fills.
pub fn copy_kind(class: Class, name: &str) -> &'static str {
    const KINDS: [&str; 5] = ["HtoD", "DtoH", "DtoD", "PtoP", "HtoH"];
    if class == Class::Memset || name.starts_with("Memset") || name.contains("fillBuffer") {
        return "set";
    }
    KINDS.into_iter().find(|k| name.contains(k)).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_from_names_of_all_eras() {
        assert_eq!(collective_kind("ncclKernel_AllReduce_RING_LL_Sum_half(...)"), Some("all_reduce"));
        assert_eq!(collective_kind("_allgather_base"), Some("all_gather"));
        assert_eq!(collective_kind("ncclDevKernel_ReduceScatter_Sum_bf16"), Some("reduce_scatter"));
        assert_eq!(collective_kind("ncclDevKernel_Generic_4"), None);
        assert_eq!(collective_kind("deep_ep::internode::notify_dispatch<false, 8>"), Some("barrier"));
        assert_eq!(collective_kind("deep_ep::intranode::cached_notify_combine<8>"), Some("barrier"));
        assert_eq!(collective_kind("deep_ep::intranode::combine<bf16, 8>"), Some("all_to_all"));
        assert_eq!(collective_kind("mori::moe::EpCombineSync<float>"), Some("barrier"));
        assert_eq!(copy_kind(Class::Memcpy, "Memcpy DtoH (Device -> Pageable)"), "DtoH");
    }
}
