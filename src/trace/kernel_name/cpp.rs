//! Takes C++ names apart: `void ns::kernel<a::B, 4>(float*)` has the base `ns::kernel` and the arguments
//! `a::B, 4`.

use std::borrow::Cow;

/// A name in one spelling: without unnamed namespaces, and lambdas as `{lambda(A)#n}`.
pub(crate) fn normalized(name: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(name);
    for (from, to) in [("(anonymous namespace)::", ""), ("<unnamed>::", ""), ("operator ()", "operator()")] {
        if text.contains(from) {
            text = Cow::Owned(text.replace(from, to));
        }
    }
    if text.contains("[lambda(") {
        text = Cow::Owned(lambdas_of_nsys(&text));
    }
    if text.contains("'lambda") {
        text = Cow::Owned(lambdas_of_llvm(&text));
    }
    text
}

/// `[lambda(A) (instance 2)]` is `{lambda(A)#2}`.
fn lambdas_of_nsys(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("[lambda(") {
        out.push_str(&rest[..at]);
        let inside = &rest[at + 1..];
        let Some((parameters, after)) = inside.split_once(" (instance ") else { break };
        let Some((number, after)) = after.split_once(")]") else { break };
        out.push_str(&format!("{{{parameters}#{number}}}"));
        rest = after;
        if rest.is_empty() {
            return out;
        }
    }
    out + rest
}

/// `'lambda0'(A)` is `{lambda(A)#2}`, and without a number it is the first.
fn lambdas_of_llvm(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("'lambda") {
        let Some((number, after)) = after.split_once('\'') else { break };
        let Some(end) = closing(after) else { break };
        let instance = number.parse::<u32>().map_or(1, |n| n.saturating_add(2));
        out.push_str(&format!("{before}{{lambda{}#{instance}}}", &after[..end]));
        rest = &after[end..];
    }
    out + rest
}

/// The position after the bracket that closes the one at the beginning of a text; `None` if there is none.
pub(crate) fn closing(text: &str) -> Option<usize> {
    let mut open = Vec::new();
    let bytes = text.as_bytes();
    for (i, b) in bytes.iter().enumerate() {
        match b {
            b'<' | b'(' | b'{' | b'[' => open.push(*b),
            // The arrow of a lambda closes nothing, nor does a comparison in parentheses.
            b'>' if i > 0 && bytes[i - 1] == b'-' => {}
            b'>' if open.last().is_some_and(|last| *last != b'<') => {}
            b'>' | b')' | b'}' | b']' => {
                // A bracket that does not fit, such as `a < b` among the arguments, ends at the enclosing
                // one.
                let wanted = match b {
                    b'>' => b'<',
                    b')' => b'(',
                    b'}' => b'{',
                    _ => b'[',
                };
                while let Some(last) = open.pop() {
                    if last == wanted {
                        break;
                    }
                }
                if open.is_empty() {
                    return Some(i + 1);
                }
            }
            _ if open.is_empty() => return None,
            _ => {}
        }
    }
    None
}

/// Divides a text at a separator that is in no bracket.
pub(crate) fn split<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let (mut out, mut from, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("operator()") {
            at += "operator()".len();
        } else if rest.starts_with(['<', '(', '{', '[']) {
            at += closing(rest).unwrap_or(rest.len());
        } else if rest.starts_with(separator) {
            out.push(&text[from..at]);
            at += separator.len();
            from = at;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    out.push(&text[from..]);
    out
}

/// A name without its return type and its parameters: `ns::kernel<a::B, 4>`.
pub(crate) fn head(name: &str) -> &str {
    let (mut from, mut at) = (0, 0);
    while at < name.len() {
        let rest = &name[at..];
        if rest.starts_with("operator()") {
            at += "operator()".len();
        } else if rest.starts_with('(') && at > from {
            // What follows the parameters belongs to the name only if a path goes on, as after a local
            // function.
            let end = at + closing(rest).unwrap_or(rest.len());
            let goes_on = name[end..].trim_start_matches(" const").starts_with("::");
            if !goes_on {
                return name[from..at].trim();
            }
            at = end;
        } else if rest.starts_with(['<', '{', '[', '(']) {
            at += closing(rest).unwrap_or(rest.len());
        } else if rest.starts_with(' ') {
            at += 1;
            // `a() const::b` is one path.
            if !rest.starts_with(" const::")
                && name[at..].trim_start().starts_with(|c: char| c.is_alphabetic() || c == '_')
            {
                from = at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    name[from..].trim()
}

/// The path of a head without arguments: `ns::kernel`.
pub(crate) fn base(head: &str) -> String {
    let mut out = String::with_capacity(head.len());
    let mut at = 0;
    while at < head.len() {
        let rest = &head[at..];
        if rest.starts_with(['<', '(', '{', '[']) {
            at += closing(rest).unwrap_or(rest.len());
        } else {
            let c = rest.chars().next().unwrap_or(' ');
            out.push(c);
            at += c.len_utf8();
        }
    }
    out
}

/// Every path of identifiers among the template arguments of a head, in order: `a::B` of `ns::kernel<a::B,
/// 4>`.
pub(crate) fn argument_paths(head: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < head.len() {
        let rest = &head[at..];
        if rest.starts_with('<') {
            let end = closing(rest).unwrap_or(rest.len());
            paths(&rest[1..end.max(1)], &mut out);
            at += end;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    out
}

/// Adds the paths of identifiers of a text.
fn paths<'a>(text: &'a str, out: &mut Vec<&'a str>) {
    let bytes = text.as_bytes();
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'$';
    let mut at = 0;
    while at < bytes.len() {
        if !is_part(bytes[at]) {
            at += 1;
            continue;
        }
        let from = at;
        while at < bytes.len()
            && (is_part(bytes[at])
                || (bytes[at..].starts_with(b"::") && bytes.get(at + 2).is_some_and(|b| is_part(*b))))
        {
            at += if bytes[at] == b':' { 2 } else { 1 };
        }
        if !bytes[from].is_ascii_digit() {
            out.push(&text[from..at]);
        }
    }
}

/// The last two components of a path.
pub(crate) fn last_two(path: &str) -> &str {
    let mut ends = path.rmatch_indices("::").map(|(at, _)| at + 2);
    ends.nth(1).map_or(path, |at| &path[at..])
}

/// The last component of a path.
pub(crate) fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_apart() {
        let name = "void at::native::(anonymous namespace)::vectorized_elementwise_kernel<4, \
                    at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)::{lambda()#2}::operator()() \
                    const::{lambda(float) -> float#1}, std::array<char*, 2ul>>(int, std::array<char*, 2ul>)";
        let plain = normalized(name);
        let head = head(&plain);
        assert!(
            head.starts_with("at::native::vectorized_elementwise_kernel<4") && head.ends_with("2ul>>"),
            "{head}"
        );
        assert_eq!(base(head), "at::native::vectorized_elementwise_kernel");
        let paths = argument_paths(head);
        assert_eq!(paths[0], "at::native::GeluCUDAKernelImpl");
        assert!(paths.contains(&"std::array") && !paths.contains(&"4"));
        assert_eq!((last_two("a::b::c"), last_two("c"), last("a::b")), ("b::c", "c", "b"));
    }

    #[test]
    fn return_types_and_parameters_are_left_out() {
        assert_eq!(head("ampere_sgemm_128x64_nn"), "ampere_sgemm_128x64_nn");
        assert_eq!(
            head("std::enable_if<!(false), void>::type internal::gemvNSP_kernel<float, 1>(float)"),
            "internal::gemvNSP_kernel<float, 1>"
        );
        assert_eq!(head("Memcpy HtoD (Pageable -> Device)"), "HtoD");
        let compared = "std::enable_if<(((width) > (0)) && A<c10::Half>::exists), void>::type \
                        vllm::norm_kernel<c10::Half, 8>(int)";
        assert_eq!(head(compared), "vllm::norm_kernel<c10::Half, 8>");
        assert_eq!(split("a<b, c>, d(e, f)", ","), ["a<b, c>", " d(e, f)"]);
    }

    #[test]
    fn lambdas_have_one_spelling() {
        assert_eq!(normalized("f<[lambda(float) (instance 3)]>"), "f<{lambda(float)#3}>");
        assert_eq!(normalized("f<'lambda'(float)>"), "f<{lambda(float)#1}>");
        assert_eq!(normalized("f<'lambda0'(float)::operator ()>"), "f<{lambda(float)#2}::operator()>");
    }

    #[test]
    fn damaged_names_end() {
        for name in ["f<", "f>)", "<<<<", "a::", "::", "f<a(b>c)", "[lambda(", "'lambda", "é<ß>(x"] {
            let plain = normalized(name);
            let head = head(&plain);
            let _ = (base(head), argument_paths(head), split(head, ","));
        }
    }
}
