//! Element types of messages and their sizes, in all spellings that traces use.

/// Size of an element in bytes. Knows the names of the profiler (`BFloat16`), of operator inputs
/// (`c10::BFloat16`, `long int`) and of kernel names (`bf16`).
pub fn element_bytes(dtype: &str) -> Option<i64> {
    let name = dtype.strip_prefix("c10::").unwrap_or(dtype);
    Some(match name {
        "ComplexDouble" | "complex<double>" => 16,
        "Double" | "Long" | "UInt64" | "ComplexFloat" | "double" | "long int" | "long" | "int64_t"
        | "f64" | "i64" | "u64" | "complex<float>" => 8,
        "Float" | "Int" | "UInt32" | "ComplexHalf" | "float" | "int" | "unsigned int" | "f32" | "i32"
        | "u32" => 4,
        "Half" | "BFloat16" | "Short" | "UInt16" | "half" | "short" | "short int" | "f16" | "bf16" => 2,
        "Byte" | "Char" | "Bool" | "unsigned char" | "signed char" | "char" | "bool" | "i8" | "u8" => 1,
        other if other.starts_with("Float8") || other.starts_with("f8") => 1,
        _ => return None,
    })
}

/// The canonical name of a type: that of the profiler's `dtype` argument.
pub fn dtype_name(dtype: &str) -> &str {
    match dtype.strip_prefix("c10::").unwrap_or(dtype) {
        "float" | "f32" => "Float",
        "double" | "f64" => "Double",
        "half" | "f16" => "Half",
        "bf16" => "BFloat16",
        "long int" | "long" | "int64_t" | "i64" => "Long",
        "int" | "i32" => "Int",
        "unsigned char" | "u8" => "Byte",
        "signed char" | "char" | "i8" => "Char",
        "short int" | "short" => "Short",
        "bool" => "Bool",
        other => other,
    }
}

/// The type in the kernel name of a reduction: `ncclDevKernel_AllReduce_Sum_f16_RING_LL(...)`,
/// `ncclKernel_AllReduce_RING_LL_Sum_half(...)`. Kernels of other kinds move bytes, whatever type their name
/// contains.
pub fn dtype_in_kernel(name: &str) -> Option<&'static str> {
    if !name.starts_with("nccl") || !name.contains("Reduce") {
        return None;
    }
    const KNOWN: [&str; 13] =
        ["f16", "f32", "f64", "bf16", "i8", "u8", "i32", "u32", "i64", "u64", "half", "float", "double"];
    let head = name.split('(').next().unwrap_or(name);
    head.split('_').find_map(|part| KNOWN.into_iter().find(|k| *k == part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_type_has_one_size_and_name_in_all_spellings() {
        for text in ["BFloat16", "c10::BFloat16", "bf16"] {
            assert_eq!((element_bytes(text), dtype_name(text)), (Some(2), "BFloat16"));
        }
        assert_eq!(element_bytes("TensorList"), None);
    }

    #[test]
    fn kernels_of_reductions_name_their_type() {
        assert_eq!(dtype_in_kernel("ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*)"), Some("f16"));
        assert_eq!(dtype_in_kernel("ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)"), Some("half"));
        assert_eq!(dtype_in_kernel("ncclDevKernel_AllGather_RING_LL(x)"), None);
    }
}
