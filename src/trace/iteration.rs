//! Iterations of inference engines: what is known of one, whoever named it, and what follows from that.
//!
//! `iteration_name` reads the names that engines write.

/// The program that named an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    Vllm,
    Sglang,
    Atom,
    Diffusion,
}

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Engine::Vllm => "vllm",
            Engine::Sglang => "sglang",
            Engine::Atom => "atom",
            Engine::Diffusion => "diffusion",
        }
    }
}

/// What an iteration does for its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Reads prompts.
    Prefill,
    /// Adds a token to each request.
    Decode,
    /// Both.
    Mixed,
    /// Nothing; the engine steps because other ranks do.
    Idle,
    /// Speculation: the model checks drafted tokens, or a draft model writes them.
    TargetVerify,
    DraftExtend,
    Draft,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Prefill => "prefill",
            Phase::Decode => "decode",
            Phase::Mixed => "mixed",
            Phase::Idle => "idle",
            Phase::TargetVerify => "target_verify",
            Phase::DraftExtend => "draft_extend",
            Phase::Draft => "draft",
        }
    }

    /// By the number of requests in each phase.
    pub(crate) fn of_requests(context: u64, generation: u64) -> Phase {
        match (context, generation) {
            (0, 0) => Phase::Idle,
            (_, 0) => Phase::Prefill,
            (0, _) => Phase::Decode,
            _ => Phase::Mixed,
        }
    }

    /// SGLang's name of a mode, in any case.
    pub(crate) fn of_mode(mode: &str) -> Option<Phase> {
        match mode.to_ascii_uppercase().as_str() {
            "EXTEND" | "PREFILL" => Some(Phase::Prefill),
            "DECODE" => Some(Phase::Decode),
            "MIXED" => Some(Phase::Mixed),
            "IDLE" => Some(Phase::Idle),
            "TARGET_VERIFY" => Some(Phase::TargetVerify),
            m if m.starts_with("DRAFT_EXTEND") => Some(Phase::DraftExtend),
            m if m.starts_with("DRAFT") => Some(Phase::Draft),
            _ => None,
        }
    }
}

/// The requests of one phase in an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PhaseLoad {
    pub requests: Option<u64>,
    /// Tokens that the model computes.
    pub query_tokens: Option<u64>,
    /// Tokens that they attend to, including themselves, summed over requests.
    pub(crate) kv_tokens: Option<u64>,
    /// Sums over requests of the query tokens squared, and (next field) times the KV tokens.
    pub(crate) query_squared: Option<u64>,
    pub(crate) query_kv: Option<u64>,
}

impl PhaseLoad {
    /// Takes from `other` what is not known.
    fn complete(&mut self, other: &PhaseLoad) {
        self.requests = self.requests.or(other.requests);
        self.query_tokens = self.query_tokens.or(other.query_tokens);
        self.kv_tokens = self.kv_tokens.or(other.kv_tokens);
        self.query_squared = self.query_squared.or(other.query_squared);
        self.query_kv = self.query_kv.or(other.query_kv);
    }
}

/// What the name of a range says about an iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iteration {
    /// `None` if no engine named it.
    pub engine: Option<Engine>,
    /// `None` if the mode is not known.
    pub phase: Option<Phase>,
    /// The mode as written; of a range that no engine named, its name with `#` for digits.
    pub mode: Option<String>,
    pub requests: Option<u64>,
    /// Scheduled tokens of all requests.
    pub tokens: Option<u64>,
    /// Number of requests for which the kernels are launched, at least `requests`.
    pub padded_batch: Option<u64>,
    pub context: PhaseLoad,
    pub generation: PhaseLoad,
    /// Width and height in pixels.
    pub(crate) image: Option<(u64, u64)>,
}

impl Iteration {
    /// Of which nothing but this is known.
    pub fn new(engine: Option<Engine>, phase: Option<Phase>) -> Self {
        Self {
            engine,
            phase,
            mode: None,
            requests: None,
            tokens: None,
            padded_batch: None,
            context: PhaseLoad::default(),
            generation: PhaseLoad::default(),
            image: None,
        }
    }

    /// Takes what is not known from a range inside this one.
    pub fn complete(&mut self, inner: &Iteration) {
        if (self.engine, inner.engine) == (Some(Engine::Vllm), Some(Engine::Sglang)) {
            // SGLang with the detailed patch writes vLLM's name around its own.
            self.engine = Some(Engine::Sglang);
        }
        self.engine = self.engine.or(inner.engine);
        self.phase = self.phase.or(inner.phase);
        self.mode = self.mode.take().or_else(|| inner.mode.clone());
        self.requests = self.requests.or(inner.requests);
        self.tokens = self.tokens.or(inner.tokens);
        self.padded_batch = self.padded_batch.or(inner.padded_batch);
        self.context.complete(&inner.context);
        self.generation.complete(&inner.generation);
        self.image = self.image.or(inner.image);
    }

    /// KV tokens of all requests.
    pub fn kv_tokens(&self) -> Option<u64> {
        match (self.context.kv_tokens, self.generation.kv_tokens) {
            (None, None) => None,
            (context, generation) => context.unwrap_or(0).checked_add(generation.unwrap_or(0)),
        }
    }

    /// KV tokens of the mean request.
    pub fn mean_kv_tokens(&self) -> Option<f64> {
        let requests = self.requests.filter(|n| *n > 0)?;
        Some(self.kv_tokens()? as f64 / requests as f64)
    }

    /// Whether prompts were read in part before: they attend to more tokens than are computed.
    pub fn is_continued(&self) -> bool {
        self.context.kv_tokens.zip(self.context.query_tokens).is_some_and(|(kv, query)| kv > query)
    }

    /// Fewest and most tokens that a decode iteration generated. They differ when it checks drafted tokens,
    /// because nothing says how many were accepted.
    pub fn generated(&self) -> Option<(u64, u64)> {
        let requests = self.generation.requests.filter(|_| self.phase == Some(Phase::Decode))?;
        Some((requests, self.generation.query_tokens.unwrap_or(requests).max(requests)))
    }

    /// Tokens by which the iteration brings its requests on: generated in decode, read in prefill, both
    /// together when mixed. `None` if not known.
    pub fn progress(&self) -> Option<u64> {
        match self.phase? {
            Phase::Decode => self.generated().filter(|(least, most)| least == most).map(|(n, _)| n),
            Phase::Prefill => self.context.query_tokens.or(self.tokens),
            Phase::Mixed => self.tokens,
            _ => None,
        }
    }

    /// For people, such as `decode 32 req 32 tok kv 1721`.
    pub fn label(&self) -> String {
        let engine = self.engine.map_or("iteration", Engine::name);
        let phase = self.phase.map(Phase::name).or(self.mode.as_deref()).unwrap_or(engine);
        let mut label = phase.to_string();
        let mut add = |text: String| {
            label.push(' ');
            label.push_str(&text);
        };
        if let Some(n) = self.requests {
            add(format!("{n} req"));
        }
        if let Some(n) = self.tokens {
            add(format!("{n} tok"));
        }
        if let Some(kv) = self.mean_kv_tokens().filter(|kv| *kv > 0.0) {
            add(format!("kv {kv:.0}"));
        }
        if let Some((width, height)) = self.image {
            add(format!("{width}x{height}"));
        }
        label
    }
}
