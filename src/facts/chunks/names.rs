//! The names that frameworks give to chunks of a pipeline.
//!
//! ```text
//!   PP:2F5                        torch's runtime schedules: stage 2, forward of batch 5 (F, B, I or W)
//!   PP:(0F7;7B3)OVERLAP_F_B       two chunks at once
//!   Forward 5, Backward 5         torch's GPipe schedule: no stage
//! ```
//!
//! `PP:2SEND_F5`, `PP:2RECV_B5`, `PP:2WAIT_SEND_F5`, `PP:2UNSHARD` and `PP:2REDUCE_GRAD` are no chunks.

use crate::chunks::chunk::{ChunkKind, ChunkName};

/// The chunk that an annotation names, with the one that runs at the same time.
pub(super) fn named(text: &str) -> Option<(ChunkName, Option<ChunkName>)> {
    if let Some(action) = text.strip_prefix("PP:") {
        if let Some(both) = action.strip_prefix('(').and_then(|a| a.strip_suffix(")OVERLAP_F_B")) {
            let (first, second) = both.split_once(';')?;
            return Some((runtime_action(first)?, Some(runtime_action(second)?)));
        }
        return Some((runtime_action(action)?, None));
    }
    let (word, batch) = text.split_once(' ')?;
    let kind = match word {
        "Forward" => ChunkKind::Forward,
        "Backward" => ChunkKind::Backward,
        _ => return None,
    };
    Some((ChunkName { kind, stage: None, batch: Some(batch.parse().ok()?) }, None))
}

/// Stage, letter and micro-batch: `2F5`.
fn runtime_action(text: &str) -> Option<ChunkName> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (stage, rest) = text.split_at_checked(at)?;
    let (letter, batch) = rest.split_at_checked(1)?;
    Some(ChunkName {
        kind: ChunkKind::of_letter(letter)?,
        stage: Some(stage.parse().ok()?),
        batch: Some(batch.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        let one = |n: ChunkName| {
            let number = |n: Option<u32>| n.map_or("-".to_string(), |n| n.to_string());
            format!("{}{}{}", number(n.stage), n.kind.letter(), number(n.batch))
        };
        let (name, with) = named(text)?;
        Some(with.map_or_else(|| one(name), |with| format!("{} {}", one(name), one(with))))
    }

    #[test]
    fn actions_of_torch_are_chunks_and_messages_are_not() {
        let of = |text: &str| shown(text);
        assert_eq!(of("PP:12F7").as_deref(), Some("12F7"));
        assert_eq!(of("PP:0I10").as_deref(), Some("0I10"));
        assert_eq!(of("PP:3W0").as_deref(), Some("3W0"));
        assert_eq!(of("PP:(0F7;7B3)OVERLAP_F_B").as_deref(), Some("0F7 7B3"));
        assert_eq!(of("Forward 4").as_deref(), Some("-F4"));
        assert_eq!(of("Backward 11").as_deref(), Some("-B11"));
        for no_chunk in [
            "PP:1SEND_F0",
            "PP:1RECV_F0",
            "PP:1WAIT_SEND_F0",
            "PP:1UNSHARD",
            "PP:1REDUCE_GRAD",
            "PP:F1",
            "PP:1F",
            "PP:1X1",
            "Forward",
            "Forward pass",
            "PP:(1F1)OVERLAP_F_B",
            "PP:",
            "PP:é",
        ] {
            assert_eq!(of(no_chunk), None, "{no_chunk}");
        }
    }
}
