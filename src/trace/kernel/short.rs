//! Short names of kernels that keep what tells them apart.
//!
//! ```text
//!   void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(...)::{lambda()#2}...>(...)
//!        vectorized_elementwise_kernel<4,GeluCUDAKernelImpl#2.4.1(bf16)>
//! ```

use crate::kernel_name::cpp::{base, closing, head, last, normalized, split};
use crate::kernel_name::demangled;
use hta_base::wording::names::fnv1a;

/// Last components of paths that say nothing without the one before.
const GENERIC: [&str; 7] =
    ["Kernel", "Kernel2", "device_kernel", "kentry", "kernel", "entry", "globalKernel"];

/// Scalar types with their short names.
const SCALARS: [(&str, &str); 32] = [
    ("float", "f32"),
    ("double", "f64"),
    ("bool", "b1"),
    ("c10::BFloat16", "bf16"),
    ("BFloat16", "bf16"),
    ("__nv_bfloat16", "bf16"),
    ("__hip_bfloat16", "bf16"),
    ("hip_bfloat16", "bf16"),
    ("bfloat16_t", "bf16"),
    ("std::bfloat16_t", "bf16"),
    ("c10::Half", "f16"),
    ("Half", "f16"),
    ("__half", "f16"),
    ("half", "f16"),
    ("_Float16", "f16"),
    ("half_t", "f16"),
    ("int", "i32"),
    ("unsigned int", "u32"),
    ("unsigned", "u32"),
    ("long", "i64"),
    ("long long", "i64"),
    ("int64_t", "i64"),
    ("unsigned long", "u64"),
    ("unsigned long long", "u64"),
    ("short", "i16"),
    ("unsigned short", "u16"),
    ("char", "i8"),
    ("signed char", "i8"),
    ("unsigned char", "u8"),
    ("uint8_t", "u8"),
    ("c10::complex<float>", "c64"),
    ("c10::complex<double>", "c128"),
];

/// Types whose only content is their payload: the first argument that is no scalar.
const CARRIERS: [&str; 5] =
    ["gpu_kernel_impl", "gpu_kernel_impl_nocast", "gpu_index_kernel", "func_wrapper_t", "ReduceOp"];

/// Below this depth of template arguments at most `FEW` are kept.
const DEEP: usize = 3;
const FEW: usize = 3;

/// Depth at which a name is no longer taken apart.
const DEPTH: usize = 24;

/// A kernel's name without return type, parameters and what says nothing; names of copies and sets stay
/// whole.
pub fn short_name(name: &str) -> String {
    if ["Memcpy ", "Memset "].iter().any(|p| name.starts_with(p)) {
        return name.to_string();
    }
    let full = demangled(name);
    let full = full.trim_end_matches(" [clone .kd]");
    // Names of operators and Python frames are no signatures.
    if !full.contains(['<', '(']) || !full.ends_with([')', '>']) {
        return plain(full);
    }
    let text = normalized(full);
    let head = head(&text);
    let components = split(head, "::");
    let own = components.last().copied().unwrap_or(head);
    let own_name = own.split('<').next().unwrap_or(own);
    let before = (components.len() > 1 && GENERIC.contains(&own_name))
        .then(|| last_of(components[components.len() - 2]));
    let out = match before {
        Some(before) => format!("{before}::{}", component(own, 1)),
        None => component(own, 1),
    };
    if out.trim().is_empty() { name.to_string() } else { out }
}

/// A kernel's short name without its template.
pub fn function_name(name: &str) -> String {
    short_name(name).split('<').next().unwrap_or(name).to_string()
}

/// The first four hexadecimal digits of the FNV-1a hash of the full name, which tell kernels with one short
/// name apart.
pub fn kernel_id(name: &str) -> String {
    format!("{:04x}", fnv1a(name) >> 48)
}

/// Names of other languages than C++.
fn plain(name: &str) -> String {
    if name.starts_with("Cijk_") {
        return tensile(name).unwrap_or_else(|| name.to_string());
    }
    if name.starts_with("kernel_cutlass_") {
        let end = ["_object_at_", "_tensorptr"].iter().filter_map(|mark| name.find(mark)).min();
        return name[..end.unwrap_or(name.len())].to_string();
    }
    name.to_string()
}

/// Problem type, macro tile and matrix instruction of a kernel of Tensile: `Cijk_Alik_Bljk_BBS_BH
/// MT256x192x64 MI16x16x1`.
fn tensile(name: &str) -> Option<String> {
    let tile = name.find("_MT")?;
    let end = ["_Bias", "_UserArgs"].iter().filter_map(|mark| name.find(mark)).fold(tile, usize::min);
    let part = |mark: &str| {
        let from = name.find(mark)? + 1;
        let length = name[from + 2..].bytes().take_while(|b| b.is_ascii_digit() || *b == b'x').count();
        Some(&name[from..from + 2 + length])
    };
    let parts: Vec<&str> = [Some(&name[..end]), part("_MT"), part("_MI")].into_iter().flatten().collect();
    Some(parts.join(" "))
}

/// The last component of a path without its arguments.
fn last_of(path: &str) -> String {
    let path = base(path);
    last(&path).to_string()
}

/// A component of a path with its arguments, shortened.
fn component(text: &str, depth: usize) -> String {
    let Some(open) = text.find('<').filter(|_| depth < DEPTH) else {
        return text.split('(').next().unwrap_or(text).to_string();
    };
    let end = closing(&text[open..]).map_or(text.len(), |end| open + end);
    let inside = text.get(open + 1..end.saturating_sub(1).max(open + 1)).unwrap_or("");
    let mut kept: Vec<String> = Vec::new();
    for a in split(inside, ",").into_iter().filter_map(|a| argument(a.trim(), depth)) {
        let is_number = a.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        if is_number || kept.last() != Some(&a) {
            kept.push(a);
        }
    }
    let is_cut = depth > DEEP && kept.len() > FEW;
    kept.truncate(if is_cut { FEW } else { kept.len() });
    let more = if is_cut { ",..." } else { "" };
    let name = &text[..open];
    if kept.is_empty() { name.to_string() } else { format!("{name}<{}{more}>", kept.join(",")) }
}

/// A template argument; `None` if it says nothing.
fn argument(text: &str, depth: usize) -> Option<String> {
    let mut text = text.trim();
    // A cast of a number: `(int)4`, `(ns::Mode)1`.
    if text.starts_with('(')
        && let Some(end) = closing(text)
        && !text[end..].is_empty()
    {
        text = text[end..].trim();
    }
    text =
        text.trim_start_matches("const ").trim_end_matches("const").trim_end_matches(['*', '&', ' ']).trim();
    let number = text.trim_start_matches('-').trim_end_matches(['u', 'l', 'U', 'L']);
    if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
        return Some(text.trim_end_matches(['u', 'l', 'U', 'L']).to_string());
    }
    if let Some((_, short)) = SCALARS.iter().find(|(long, _)| *long == text) {
        return Some((*short).to_string());
    }
    let components = split(text, "::");
    let own = components.last().copied().unwrap_or(text);
    let own_name = own.split(['<', '(']).next().unwrap_or(own);
    let says_nothing = text.starts_with("std::array")
        || text.starts_with("at::detail::Array")
        || text.starts_with("at::native::memory::")
        || own_name.contains("OffsetCalculator")
        || (own_name.starts_with("TensorList") && own_name.ends_with("Metadata"));
    if says_nothing || text.is_empty() {
        return None;
    }
    if components.iter().any(|c| c.starts_with("{lambda")) {
        return lambda(&components, depth);
    }
    if CARRIERS.contains(&own_name) {
        return payload(own, depth).or_else(|| Some(own_name.to_string()));
    }
    Some(component(own, depth + 1))
}

/// The first argument of a carrier that is no scalar and no number.
fn payload(carrier: &str, depth: usize) -> Option<String> {
    let open = carrier.find('<').filter(|_| depth < DEPTH)?;
    let end = open + closing(&carrier[open..])?;
    let is_scalar = |a: &str| SCALARS.iter().any(|(long, short)| *long == a || *short == a);
    let inside = split(carrier.get(open + 1..end - 1)?, ",");
    inside
        .into_iter()
        .map(str::trim)
        .filter(|a| !is_scalar(a) && a.contains(['<', ':']))
        .find_map(|a| argument(a, depth + 1))
}

/// A lambda: the function that encloses it, the numbers of the lambdas, and the types of the arguments of the
/// last.
fn lambda(components: &[&str], depth: usize) -> Option<String> {
    let first = components.iter().position(|c| c.starts_with("{lambda"))?;
    let function = components[..first].iter().rev().find(|c| !c.starts_with("operator()"))?;
    let name = function.split(['<', '(']).next().unwrap_or(function);
    let enclosing = if CARRIERS.contains(&name) {
        // What is passed to it says which kernel this is.
        if let Some(payload) = payload(function, depth) {
            return Some(payload);
        }
        name.to_string()
    } else {
        component(function, depth + 1)
    };
    let lambdas: Vec<&&str> = components[first..].iter().filter(|c| c.starts_with("{lambda")).collect();
    let number = |c: &&&str| c.trim_end_matches('}').rsplit('#').next().unwrap_or_default().to_string();
    let numbers: Vec<String> = lambdas.iter().map(number).collect();
    let parameters = lambdas.last().and_then(|c| {
        let open = c.find('(')?;
        let end = open + closing(&c[open..])?;
        c.get(open + 1..end - 1)
    })?;
    let mut types: Vec<String> = Vec::new();
    for t in split(parameters, ",").into_iter().filter_map(|t| argument(t, depth + 1)) {
        if types.last() != Some(&t) {
            types.push(t);
        }
    }
    Some(format!("{enclosing}#{}({})", numbers.join("."), types.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_names_keep_what_tells_kernels_apart() {
        let of = short_name;
        let gelu = "void at::native::vectorized_elementwise_kernel<4, \
                    at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, \
                    at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#4}::operator()() \
                    const::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int, \
                    at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, \
                    at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#4}::operator()() \
                    const::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul>)";
        assert_eq!(of(gelu), "vectorized_elementwise_kernel<4,GeluCUDAKernelImpl#2.4.1(bf16)>");
        let sum = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, \
                   at::native::func_wrapper_t<float, at::native::sum_functor<float, float, \
                   float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, \
                   4, 4> >(at::native::ReduceOp<float, float>)";
        assert_eq!(of(sum), "reduce_kernel<512,1,sum_functor<f32>#1(f32)>");
        let cutlass = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1::Params)";
        assert_eq!(
            of(cutlass),
            "cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>"
        );
        assert_eq!(of("ampere_sgemm_128x64_nn"), "ampere_sgemm_128x64_nn");
        assert_eq!(of("<unknown>"), "<unknown>");
        assert_eq!(of("Memcpy HtoD (Pageable -> Device)"), "Memcpy HtoD (Pageable -> Device)");
        assert_eq!(
            of("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, ncclWork*)"),
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        );
    }

    #[test]
    fn kernels_of_other_languages_keep_their_tile_or_lose_their_arguments() {
        let tensile = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB1_AFC1";
        assert_eq!(short_name(tensile), "Cijk_Alik_Bljk_BBS_BH MT256x192x64 MI16x16x1");
        let cute =
            "kernel_cutlass_kernel_flashinfernormkernelsrmsnormRMSNormKernel_object_at__tensorptrbf16gmem";
        assert_eq!(short_name(cute), "kernel_cutlass_kernel_flashinfernormkernelsrmsnormRMSNormKernel");
        assert_eq!(kernel_id("a"), format!("{:04x}", fnv1a("a") >> 48));
    }

    #[test]
    fn names_that_are_no_signatures_stay_as_they_are() {
        for name in
            ["aten::addmm", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "a.py(3): f"]
        {
            assert_eq!(short_name(name), name);
        }
        assert_eq!(short_name("void f<int>(int) [clone .kd]"), "f<i32>");
    }

    #[test]
    fn two_recorders_give_one_short_name() {
        let kineto = "void at::native::elementwise_kernel<128, 2, \
                      at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, \
                      at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, \
                      at::native::BinaryFunctor<float, float, float, \
                      at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1}>(int, float)";
        let nsys = "void at::native::elementwise_kernel<(int)128, (int)2, void \
                    at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, \
                    at::native::binary_internal::MulFunctor<float>>>(at::TensorIteratorBase &, const T1 \
                    &)::[lambda(int) (instance 1)]>(int, T3)";
        assert_eq!(short_name(kineto), "elementwise_kernel<128,2,BinaryFunctor<f32,MulFunctor<f32>>>");
        assert_eq!(short_name(nsys), short_name(kineto));
    }

    proptest! {
        #[test]
        fn any_text_has_a_short_name(name in "[a-z<>(){}:#,*& 0-9]{0,60}") {
            let _ = short_name(&name);
        }
    }
}
