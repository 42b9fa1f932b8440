//! Names of iterations: what an inference engine says about a range in the range's name.
//!
//! ```text
//!   execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)      a step of vLLM or SGLang
//!           |          |                             |      |   |
//!           tokens     requests in prefill           |      |   KV tokens that they attend to, this step's included
//!                                                    |      query tokens
//!                                                    requests in decode
//! ```
//!
//! No number of such a name is the number of a step. The spellings are listed in `hta explain serving`; the
//! tests have one of each.

use crate::iteration::{Engine, Iteration, Phase, PhaseLoad};
use regex::{Captures, Regex};
use std::sync::LazyLock;

impl Iteration {
    /// Reads a name; `None` if it is not that of an iteration.
    pub fn parse(name: &str) -> Option<Iteration> {
        match name.as_bytes().first()? {
            b'e' => {
                detailed(name).or_else(|| plain(name)).or_else(|| early(name)).or_else(|| diffusion(name))
            }
            b's' => sglang(name),
            b'p' => atom_prefill(name),
            b'd' => atom_decode(name),
            _ => None,
        }
    }
}

/// The numbers of a match, in order; `None` if one is too large.
fn numbers<const N: usize>(found: &Captures) -> Option<[u64; N]> {
    let mut out = [0; N];
    for (i, to) in out.iter_mut().enumerate() {
        *to = found.get(i + 1)?.as_str().parse().ok()?;
    }
    Some(out)
}

/// Compiles a pattern of this file.
macro_rules! pattern {
    ($text:expr) => {
        LazyLock::new(|| Regex::new($text).expect("a test reads every spelling"))
    };
}

/// vLLM and SGLang with sums over requests.
fn detailed(name: &str) -> Option<Iteration> {
    static NAME: LazyLock<Regex> = pattern!(
        r"^execute_([0-9]+)_context_([0-9]+)\(sq([0-9]+)sk([0-9]+)sqsq([0-9]+)sqsk([0-9]+)\)_generation_([0-9]+)\(sq([0-9]+)sk([0-9]+)sqsq([0-9]+)sqsk([0-9]+)\)$"
    );
    let [tokens, context, sq, sk, sqsq, sqsk, generation, g_sq, g_sk, g_sqsq, g_sqsk] =
        numbers::<11>(&NAME.captures(name)?)?;
    let load = |requests, query, kv, squared, product| PhaseLoad {
        requests: Some(requests),
        query_tokens: Some(query),
        kv_tokens: Some(kv),
        query_squared: Some(squared),
        query_kv: Some(product),
    };
    Some(Iteration {
        requests: Some(context.checked_add(generation)?),
        tokens: Some(tokens),
        context: load(context, sq, sk, sqsq, sqsk),
        generation: load(generation, g_sq, g_sk, g_sqsq, g_sqsk),
        ..Iteration::new(Some(Engine::Vllm), Some(Phase::of_requests(context, generation)))
    })
}

/// vLLM: requests and tokens of each phase.
fn plain(name: &str) -> Option<Iteration> {
    static NAME: LazyLock<Regex> =
        pattern!(r"^execute_context_([0-9]+)\(([0-9]+)\)_generation_([0-9]+)\(([0-9]+)\)$");
    let [context, read, generation, written] = numbers::<4>(&NAME.captures(name)?)?;
    let load = |requests, query| PhaseLoad {
        requests: Some(requests),
        query_tokens: Some(query),
        ..PhaseLoad::default()
    };
    Some(Iteration {
        requests: Some(context.checked_add(generation)?),
        tokens: Some(read.checked_add(written)?),
        context: load(context, read),
        generation: load(generation, written),
        ..Iteration::new(Some(Engine::Vllm), Some(Phase::of_requests(context, generation)))
    })
}

/// vLLM before 0.12: only whether requests are new. Those that are not may still read a part of their
/// prompts, so the phase is that of most iterations, and how many tokens they are is not known.
fn early(name: &str) -> Option<Iteration> {
    static NAME: LazyLock<Regex> = pattern!(r"^execute_new_([0-9]+)_cached_([0-9]+)$");
    let [new, cached] = numbers::<2>(&NAME.captures(name)?)?;
    Some(Iteration {
        requests: Some(new.checked_add(cached)?),
        ..Iteration::new(Some(Engine::Vllm), Some(Phase::of_requests(new, cached)))
    })
}

/// The value of the first of these keys among `key=value` words.
fn value(words: &str, keys: &[&str]) -> Option<u64> {
    let of =
        |key: &&str| words.split(' ').find_map(|w| w.strip_prefix(*key)?.strip_prefix('=')?.parse().ok());
    keys.iter().find_map(of)
}

/// SGLang: mode, batch size, and any of several keys in any order.
fn sglang(name: &str) -> Option<Iteration> {
    static NAME: LazyLock<Regex> =
        pattern!(r"^step\[([0-9A-Za-z_]+) bs=([0-9]+)((?: [0-9A-Za-z_]+=[^ \]]+)*)\]$");
    let found = NAME.captures(name)?;
    let (mode, keys) = (found.get(1)?.as_str(), found.get(3)?.as_str());
    let requests: u64 = found.get(2)?.as_str().parse().ok()?;
    let phase = Phase::of_mode(mode);
    let load = |query: &[&str], sums: [&str; 3]| PhaseLoad {
        requests: None,
        query_tokens: value(keys, query),
        kv_tokens: value(keys, &[sums[0]]),
        query_squared: value(keys, &[sums[1]]),
        query_kv: value(keys, &[sums[2]]),
    };
    let mut context = load(&["c_sq", "ext", "c"], ["c_sk", "c_sqsq", "c_sqsk"]);
    let mut generation = load(&["g_sq", "dec", "g"], ["g_sk", "g_sqsq", "g_sqsk"]);
    let tokens = value(keys, &["toks"]);
    match phase {
        Some(Phase::Prefill) => {
            context.requests = Some(requests);
            context.query_tokens = context.query_tokens.or(tokens);
        }
        Some(Phase::Decode) => {
            generation.requests = Some(requests);
            generation.query_tokens = generation.query_tokens.or(tokens).or(Some(requests));
        }
        _ => {}
    }
    let of_phases = match (context.query_tokens, generation.query_tokens) {
        (Some(a), Some(b)) => a.checked_add(b),
        (a, b) if phase != Some(Phase::Mixed) => a.or(b),
        _ => None,
    };
    Some(Iteration {
        mode: Some(mode.to_string()),
        requests: Some(requests),
        tokens: tokens.or(of_phases),
        context,
        generation,
        ..Iteration::new(Some(Engine::Sglang), phase)
    })
}

/// ATOM, prompts.
fn atom_prefill(name: &str) -> Option<Iteration> {
    static NAME: LazyLock<Regex> = pattern!(r"^prefill\[bs=([0-9]+) tok=([0-9]+)(?: .*)?\]$");
    let [requests, tokens] = numbers::<2>(&NAME.captures(name)?)?;
    Some(Iteration {
        requests: Some(requests),
        tokens: Some(tokens),
        context: PhaseLoad { requests: Some(requests), query_tokens: Some(tokens), ..PhaseLoad::default() },
        ..Iteration::new(Some(Engine::Atom), Some(Phase::Prefill))
    })
}

/// ATOM, generation: the real batch before the slash, the padded one after it.
fn atom_decode(name: &str) -> Option<Iteration> {
    static NAME: LazyLock<Regex> =
        pattern!(r"^decode\[bs=([0-9]+)/([0-9]+) tok=([0-9]+)((?: [0-9A-Za-z_]+=[^ \]]+)*)\]$");
    let found = NAME.captures(name)?;
    let [requests, padded, tokens] = numbers::<3>(&found)?;
    let keys = found.get(4)?.as_str();
    Some(Iteration {
        requests: Some(requests),
        tokens: Some(tokens),
        padded_batch: Some(padded),
        generation: PhaseLoad {
            requests: Some(requests),
            query_tokens: Some(tokens),
            kv_tokens: value(keys, &["sk"]),
            query_squared: value(keys, &["sqsq"]),
            query_kv: value(keys, &["sqsk"]),
        },
        ..Iteration::new(Some(Engine::Atom), Some(Phase::Decode))
    })
}

/// An image request of a diffusion model.
fn diffusion(name: &str) -> Option<Iteration> {
    static NAME: LazyLock<Regex> = pattern!(r"^execute_diffusion_([0-9]+)_([0-9]+)x([0-9]+)$");
    let [requests, width, height] = numbers::<3>(&NAME.captures(name)?)?;
    Some(Iteration {
        requests: Some(requests),
        image: Some((width, height)),
        ..Iteration::new(Some(Engine::Diffusion), None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Iteration {
        Iteration::parse(name).unwrap_or_else(|| panic!("`{name}` is an iteration"))
    }

    #[test]
    fn sums_over_requests_are_read_from_the_detailed_name() {
        let i = of("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)");
        assert_eq!(
            (i.engine, i.phase, i.requests, i.tokens),
            (Some(Engine::Vllm), Some(Phase::Decode), Some(32), Some(32))
        );
        assert_eq!((i.kv_tokens(), i.mean_kv_tokens()), (Some(55_086), Some(1721.4375)));
        assert_eq!((i.generated(), i.progress()), (Some((32, 32)), Some(32)));
        assert_eq!(i.label(), "decode 32 req 32 tok kv 1721");
        let i =
            of("execute_514_context_1(sq512sk1024sqsq262144sqsk524288)_generation_2(sq2sk300sqsq2sqsk300)");
        assert_eq!((i.phase, i.requests, i.progress()), (Some(Phase::Mixed), Some(3), Some(514)));
        assert!(i.is_continued());
        assert_eq!((i.context.query_squared, i.context.query_kv), (Some(262_144), Some(524_288)));
        let i = of("execute_100_context_2(sq100sk100sqsq5000sqsk5000)_generation_0(sq0sk0sqsq0sqsk0)");
        assert_eq!((i.phase, i.progress(), i.is_continued()), (Some(Phase::Prefill), Some(100), false));
        assert_eq!(i.label(), "prefill 2 req 100 tok kv 50");
    }

    #[test]
    fn drafted_tokens_leave_only_a_range_of_generated_ones() {
        let i = of("execute_64_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq64sk8209sqsq256sqsk32836)");
        assert_eq!((i.generated(), i.progress()), (Some((16, 64)), None));
    }

    #[test]
    fn the_plain_name_of_vllm_has_requests_and_tokens() {
        let i = of("execute_context_1(512)_generation_3(3)");
        assert_eq!(
            (i.engine, i.phase, i.requests, i.tokens),
            (Some(Engine::Vllm), Some(Phase::Mixed), Some(4), Some(515))
        );
        assert_eq!((i.kv_tokens(), i.label()), (None, "mixed 4 req 515 tok".to_string()));
        assert_eq!(of("execute_context_0(0)_generation_0(0)").phase, Some(Phase::Idle));
    }

    #[test]
    fn early_vllm_tells_requests_and_no_tokens() {
        let i = of("execute_new_0_cached_8");
        assert_eq!((i.phase, i.requests, i.tokens, i.progress()), (Some(Phase::Decode), Some(8), None, None));
        assert_eq!(of("execute_new_2_cached_0").label(), "prefill 2 req");
        assert_eq!(of("execute_new_2_cached_3").phase, Some(Phase::Mixed));
    }

    #[test]
    fn modes_of_sglang_are_read_in_any_case_with_keys_in_any_order() {
        let i = of("step[DECODE bs=16]");
        assert_eq!(
            (i.engine, i.phase, i.requests, i.tokens),
            (Some(Engine::Sglang), Some(Phase::Decode), Some(16), Some(16))
        );
        assert_eq!(i.label(), "decode 16 req 16 tok");
        let i = of("step[decode bs=4 g_sk=400 g_sq=4]");
        assert_eq!((i.phase, i.kv_tokens(), i.progress()), (Some(Phase::Decode), Some(400), Some(4)));
        let i = of("step[EXTEND bs=2 toks=1024 c_sk=2048]");
        assert_eq!((i.phase, i.progress(), i.is_continued()), (Some(Phase::Prefill), Some(1024), true));
        assert_eq!(of("step[prefill bs=1 toks=9]").phase, Some(Phase::Prefill));
        let i = of("step[MIXED bs=5 ext=300 dec=4]");
        assert_eq!((i.phase, i.tokens, i.progress()), (Some(Phase::Mixed), Some(304), Some(304)));
        assert_eq!(of("step[MIXED bs=5 c=7 g=4]").tokens, Some(11));
        assert_eq!(of("step[IDLE bs=0]").label(), "idle 0 req");
        assert_eq!(of("step[TARGET_VERIFY bs=8 toks=32]").label(), "target_verify 8 req 32 tok");
        assert_eq!(of("step[DRAFT_EXTEND_V2 bs=8]").phase, Some(Phase::DraftExtend));
        assert_eq!(of("step[DRAFT_LOOP bs=8]").phase, Some(Phase::Draft));
        let i = of("step[SPLIT_PREFILL bs=8 toks=32]");
        assert_eq!((i.phase, i.mode.as_deref(), i.progress()), (None, Some("SPLIT_PREFILL"), None));
        assert_eq!(i.label(), "SPLIT_PREFILL 8 req 32 tok");
    }

    #[test]
    fn the_real_batch_of_atom_is_before_the_slash() {
        let i = of("decode[bs=5/8 tok=5 d=1 p=0 sk=900]");
        assert_eq!(
            (i.requests, i.padded_batch, i.tokens, i.kv_tokens()),
            (Some(5), Some(8), Some(5), Some(900))
        );
        assert_eq!((i.engine, i.progress()), (Some(Engine::Atom), Some(5)));
        let i = of("prefill[bs=2 tok=700 ctx=[300, 400]]");
        assert_eq!((i.phase, i.requests, i.progress()), (Some(Phase::Prefill), Some(2), Some(700)));
    }

    #[test]
    fn an_image_request_is_an_iteration_without_phase() {
        let i = of("execute_diffusion_1_1024x768");
        assert_eq!((i.engine, i.phase, i.image), (Some(Engine::Diffusion), None, Some((1024, 768))));
        assert_eq!(i.label(), "diffusion 1 req 1024x768");
    }

    #[test]
    fn an_inner_range_adds_what_the_outer_one_lacks() {
        let mut i = of("execute_context_0(0)_generation_16(16)");
        i.complete(&of("step[DECODE bs=16 g_sk=8209]"));
        assert_eq!((i.engine, i.kv_tokens(), i.tokens), (Some(Engine::Sglang), Some(8209), Some(16)));
        assert_eq!(i.mode.as_deref(), Some("DECODE"));
    }

    /// Pieces of names, to be put together at random.
    const PIECES: [&str; 22] = [
        "execute_",
        "context_",
        "_generation_",
        "(",
        ")",
        "sq",
        "sk",
        "sqsq",
        "sqsk",
        "step[",
        "DECODE",
        " bs=",
        " toks=",
        "]",
        "decode[",
        "prefill[",
        "diffusion_",
        "x",
        "18446744073709551615",
        "7",
        "\u{202e}",
        "\u{0}",
    ];

    proptest::proptest! {
        #[test]
        fn whatever_is_read_of_a_name_can_be_told(of in proptest::collection::vec(0..PIECES.len(), 0..16)) {
            let name: String = of.into_iter().map(|i| PIECES[i]).collect();
            if let Some(i) = Iteration::parse(&name) {
                proptest::prop_assert!(!i.label().is_empty());
                let (least, most) = i.generated().unwrap_or_default();
                proptest::prop_assert!(least <= most);
                let _ = (i.kv_tokens(), i.mean_kv_tokens(), i.progress());
            }
        }
    }

    #[test]
    fn sums_of_huge_numbers_are_not_known() {
        let most = u64::MAX;
        assert_eq!(Iteration::parse(&format!("execute_context_{most}(1)_generation_1(1)")), None);
        let i = of(&format!("step[MIXED bs={most} c={most} g={most} c_sk={most} g_sk={most}]"));
        assert_eq!((i.tokens, i.kv_tokens()), (None, None));
    }

    #[test]
    fn parts_of_iterations_and_other_ranges_are_none() {
        for name in [
            "",
            "capture_32_FULL",
            "gpu_model_runner: forward",
            "## Call CompiledFxGraph f32 ##",
            "ProfilerStep#3",
            "step[DECODE]",
            "step 12",
            "execute_new_1",
            "step[\u{202e} bs=1]",
            "step[DECODE bs=-1]",
            "decode[bs=1/ tok=1]",
            "execute_diffusion_1_1024",
            "execute_99999999999999999999_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk5sqsq32sqsk5)",
            "decode[bs=4]",
            "my execute_context_1(512)_generation_3(3)",
        ] {
            assert_eq!(Iteration::parse(name), None, "{name}");
        }
    }
}
