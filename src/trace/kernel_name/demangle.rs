//! Mangled C++ names. Kineto leaves names mangled that its own runtime does not know, and long ones.

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};
use std::borrow::Cow;

/// Depth at which a name is given up, so that a damaged one cannot exhaust the stack.
const DEPTH: u32 = 96;

/// The name without mangling; a name that is not mangled is returned as it is. If a mangled name cannot be
/// read, the names at its beginning: `sgl_hip::activation::act_and_mul_kernel`.
pub fn demangled(name: &str) -> Cow<'_, str> {
    if !name.starts_with("_Z") {
        return Cow::Borrowed(name);
    }
    let parsed = Symbol::new_with_options(name.as_bytes(), &ParseOptions::default().recursion_limit(DEPTH));
    let options = DemangleOptions::default().recursion_limit(DEPTH);
    let whole = parsed.ok().and_then(|symbol| symbol.demangle_with_options(&options).ok());
    whole.or_else(|| nested_name(name)).map_or(Cow::Borrowed(name), Cow::Owned)
}

/// The identifiers at the beginning of a mangled nested name: `_ZN`, then length and text of each.
fn nested_name(name: &str) -> Option<String> {
    let mut rest = name.strip_prefix("_ZN")?;
    let mut names = Vec::new();
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(length) = rest[..digits].parse::<usize>() else { break };
        let Some(text) = rest.get(digits..digits + length) else { break };
        if !text.starts_with("_GLOBAL__N_") {
            names.push(text);
        }
        rest = &rest[digits + length..];
    }
    (!names.is_empty()).then(|| names.join("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled_or_keep_what_can_be_read() {
        assert_eq!(demangled("ampere_sgemm_128x64_nn"), "ampere_sgemm_128x64_nn");
        assert_eq!(demangled("_ZN2at6native4fillIfEEvPT_i"), "void at::native::fill<float>(float*, int)");
        // bfloat16 of C++23, and a template parameter with a constraint.
        let aiter = "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb0ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib";
        assert!(demangled(aiter).contains("aiter::add_rmsnorm_quant_kernel"), "{}", demangled(aiter));
        let constrained = "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_EXadL_Z4siluIS2_ES3_S5_EEEEvPS3_PS4_i";
        assert!(
            demangled(constrained).contains("sgl_hip::activation::act_and_mul_kernel"),
            "{}",
            demangled(constrained)
        );
        assert_eq!(nested_name(constrained).as_deref(), Some("sgl_hip::activation::act_and_mul_kernel"));
        assert_eq!(nested_name("_ZN2ck12_GLOBAL__N_11aE").as_deref(), Some("ck::a"));
        assert_eq!((demangled("_ZN"), demangled("_Zzz9")), ("_ZN".into(), "_Zzz9".into()));
    }

    #[test]
    fn a_name_of_nested_brackets_does_not_exhaust_the_stack() {
        let deep = format!("_Z1f{}", "IN1aE".repeat(20_000));
        assert!(!demangled(&deep).is_empty());
    }
}
