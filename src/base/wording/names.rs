//! Shortens names to a number of characters while keeping them distinguishable.
//!
//! Kernel names differ at both ends, so the middle is cut out. A Python frame, `path/to/file.py(12):
//! function`, loses the front of its path, because the function matters most to a reader.

/// Below this width only the first characters are kept.
const LEAST: usize = 8;

/// Replaces the part that was cut out.
const CUT: &str = "...";

/// Shortens a name to at most `width` characters.
pub fn clip(name: &str, width: usize) -> String {
    let n = name.chars().count();
    if n <= width {
        return name.to_string();
    }
    if width < LEAST {
        return name.chars().take(width).collect();
    }
    let room = width - CUT.len();
    if let Some(function) = function_of_frame(name)
        && function.chars().count() <= room
    {
        let end: String = name.chars().skip(n - room).collect();
        // Cut at a folder, if at least one whole folder fits beside the file.
        let whole = end
            .find('/')
            .filter(|slash| end.len() - slash > function.len())
            .map_or(end.as_str(), |s| &end[s..]);
        return format!("{CUT}{whole}");
    }
    let tail = room / 3;
    let head: String = name.chars().take(room - tail).collect();
    let end: String = name.chars().skip(n - tail).collect();
    format!("{head}{CUT}{end}")
}

/// A name in a sentence, where nothing is cut: a name with arguments of a template or a function loses them
/// if it is longer than a line leaves room for.
pub fn in_sentence(name: &str) -> &str {
    const ROOM: usize = 60;
    if name.chars().count() <= ROOM || frame_parts(name).is_some() {
        return name;
    }
    let head = name.split(['<', '(']).next().unwrap_or(name).trim_end();
    if head.is_empty() { name } else { head }
}

/// Like [`clip`], but a shortened name ends in a mark, for names that would look alike: the first four
/// hexadecimal digits of the 64-bit FNV-1a hash of the whole name.
pub fn marked(name: &str, width: usize) -> String {
    let mark = format!("#{:04x}", fnv1a(name) >> 48);
    match width.checked_sub(mark.len()).filter(|room| *room > 0) {
        Some(room) => format!("{}{mark}", clip(name, room)),
        None => clip(name, width),
    }
}

/// The part of a Python frame after its last folder: file, line and function.
fn function_of_frame(name: &str) -> Option<&str> {
    let (path, ..) = frame_parts(name)?;
    let file = path.rfind('/').map_or(0, |slash| slash + 1);
    name.get(file..)
}

/// Path, line and function of a Python frame, `path/to/file.py(12): function`; `None` for other names.
pub fn frame_parts(name: &str) -> Option<(&str, &str, &str)> {
    let (place, function) = name.split_once("): ")?;
    let (path, line) = place.rsplit_once('(')?;
    let is_line = !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit());
    is_line.then_some((path, line, function))
}

/// The function of a built-in one, `<built-in method run_backward of _EngineBase object at 0x7f>`.
pub fn built_in(name: &str) -> Option<&str> {
    let mut words = name.strip_prefix("<built-in ")?.trim_end_matches('>').split(' ');
    let first = words.next()?;
    let function = if matches!(first, "function" | "method") { words.next()? } else { first };
    Some(function).filter(|function| !function.is_empty())
}

/// The 64-bit FNV-1a hash of a text.
pub fn fnv1a(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_in_function_is_named_by_itself() {
        assert_eq!(built_in("<built-in method dumps of module object at 0x7f>"), Some("dumps"));
        assert_eq!(built_in("<built-in function collect>"), Some("collect"));
        assert_eq!(built_in("<built-in item at 0x7f02>"), Some("item"));
        assert_eq!(built_in("train.py(3): main"), None);
    }

    #[test]
    fn a_frame_keeps_its_function_and_loses_the_front_of_its_path() {
        let frame = "/usr/lib/python3.10/site-packages/torch/nn/modules/module.py(1501): _call_impl";
        assert_eq!(clip(frame, 50), ".../torch/nn/modules/module.py(1501): _call_impl");
        assert_eq!(clip(frame, 40), ".../modules/module.py(1501): _call_impl");
        assert_eq!(clip(frame, 200), frame);
        // no folder fits: the file and the function do
        assert!(clip(frame, 32).ends_with("module.py(1501): _call_impl"));
    }

    #[test]
    fn a_kernel_keeps_both_ends() {
        let name = "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x64x32_warpgroupsize1x1x1_execute_segment_k_off_cublas";
        let cut = clip(name, 30);
        assert_eq!(cut, "sm90_xmma_gemm_f32...ff_cublas");
        assert_eq!(clip("abcdefghij", 5), "abcde");
    }

    #[test]
    fn names_that_are_cut_to_one_text_are_marked() {
        let (a, b) = (format!("gemm_{}_cublas", "a".repeat(80)), format!("gemm_{}_cublas", "b".repeat(80)));
        let middle = |c: char| format!("{}{c}{}", "x".repeat(60), "y".repeat(60));
        assert_eq!(clip(&middle('1'), 40), clip(&middle('2'), 40));
        assert_ne!(marked(&middle('1'), 40), marked(&middle('2'), 40));
        assert!(marked(&a, 40).chars().count() == 40 && marked(&a, 40) != marked(&b, 40));
        // a reference value of FNV-1a
        assert_eq!(fnv1a("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
