//! What names of ranges say: that they count steps, or number the parts of one.

/// Words for a part of a step, beside a number or as the whole name.
const LAYER: [&str; 7] = ["layer", "layers", "block", "blocks", "expert", "experts", "head"];
const PHASE: [&str; 13] = [
    "stage",
    "stages",
    "phase",
    "phases",
    "module",
    "part",
    "chunk",
    "microbatch",
    "micro",
    "bucket",
    "section",
    "segment",
    "shard",
];

/// Words for a step beside a number.
const STEP: [&str; 9] =
    ["step", "steps", "iter", "iteration", "iterations", "batch", "epoch", "round", "denoise"];

pub fn label_of(name: &str) -> Option<i64> {
    let end = name.rfind(|ch: char| ch.is_ascii_digit())? + 1;
    let start = name[..end].rfind(|ch: char| !ch.is_ascii_digit()).map_or(0, |i| i + 1);
    name.get(start..end)?.parse().ok()
}

/// Whether names count up by a constant number.
pub(crate) fn is_counted(names: &[&str]) -> bool {
    let numbers: Option<Vec<i64>> = names.iter().map(|n| label_of(n)).collect();
    numbers.is_some_and(|n| {
        let by: Vec<i64> = n.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
        by.first().is_some_and(|d| *d != 0 && by.iter().all(|x| x == d))
    })
}

/// Whether the numbers of names tell steps apart: they grow, from step to step by a constant number unless
/// the names call themselves steps. A batch size does not, nor does an epoch of many steps.
pub(crate) fn are_labels(names: &[&str]) -> bool {
    let numbers: Vec<Option<i64>> = names.iter().map(|name| label_of(name)).collect();
    let growing = numbers.windows(2).filter(|w| w[0] < w[1]).count();
    let is_other = numbers.is_sorted() && (growing + 1) * 2 > numbers.len();
    is_other && (says_step(names) || names.len() > 2 && is_counted(names))
}

/// Whether names call themselves steps.
pub(crate) fn says_step(names: &[&str]) -> bool {
    !names.is_empty()
        && names.iter().all(|name: &&str| words(name).iter().any(|w| STEP.contains(&w.as_str())))
}

/// `layers` or `phases`, if a name calls itself a part of a step: a word for one beside a number, or as the
/// whole name.
pub(crate) fn part_of_step(name: &str) -> Option<&'static str> {
    if name.trim_start().starts_with("##") {
        return Some("repeats");
    }
    let words = words(name);
    let is_number = |i: usize| words.get(i).is_some_and(|w| w.bytes().all(|b| b.is_ascii_digit()));
    let beside = |i: usize| words.len() == 1 || is_number(i + 1) || i.checked_sub(1).is_some_and(is_number);
    let has = |list: &[&str]| (0..words.len()).any(|i| beside(i) && list.contains(&words[i].as_str()));
    if words.iter().any(|w| w == "micro") && has(&["batch"]) {
        return Some("phases");
    }
    match (has(&STEP), has(&LAYER), has(&PHASE)) {
        (true, ..) => None,
        (_, true, _) => Some("layers"),
        (.., true) => Some("phases"),
        _ => None,
    }
}

/// Words and numbers of a name in small letters: `TransformerBlock_3` has `transformer`, `block` and `3`.
fn words(name: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut before = ' ';
    for ch in name.chars() {
        let is_new = !before.is_ascii_alphanumeric()
            || before.is_ascii_digit() != ch.is_ascii_digit()
            || (before.is_ascii_lowercase() && ch.is_ascii_uppercase());
        if ch.is_ascii_alphanumeric() {
            match out.last_mut().filter(|_| !is_new) {
                Some(word) => word.push(ch.to_ascii_lowercase()),
                None => out.push(ch.to_ascii_lowercase().to_string()),
            }
        }
        before = ch;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_names_are_told_apart() {
        assert_eq!(words("TransformerBlock_3"), ["transformer", "block", "3"]);
        assert_eq!(part_of_step("decoder.layers.12.attn"), Some("layers"));
        assert_eq!(part_of_step("micro_batch 3"), Some("phases"));
        assert_eq!(part_of_step("FSDP::all_reduce (layer0)"), Some("layers"));
        for name in ["Stage::X::run", "layer_norm", "train step 3", "batch 4", "generate_masks 3"] {
            assert_eq!(part_of_step(name), None, "{name}");
        }
        assert!(is_counted(&["denoise 1", "denoise 2", "denoise 3"]) && says_step(&["denoise"; 3]));
        assert!(!says_step(&["masks"; 3]));
        assert!(!is_counted(&["masks 0 1 0"; 3]));
        for labels in [&["ProfilerStep#3", "ProfilerStep#7"][..], &["pass 4", "pass 5", "pass 6"]] {
            assert!(are_labels(labels), "{labels:?}");
        }
        for constant in ["DECODE bs=32", "train_step_mbs4", "epoch 1"] {
            assert!(!are_labels(&[constant; 3]));
        }
        assert!(!are_labels(&["epoch 1", "epoch 1", "epoch 1", "epoch 2", "epoch 2", "epoch 2"]));
        assert!(are_labels(&["ProfilerStep#3", "ProfilerStep#3", "ProfilerStep#7"]));
        assert!(!are_labels(&["DECODE bs=16", "DECODE bs=32"]) && !are_labels(&["step 2", "step 1"]));
    }
}
