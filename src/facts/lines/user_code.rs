//! Which Python functions are the user's: by the path of their file (`data/library_code.toml`), unless the
//! user says otherwise.

use regex::Regex;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::OnceLock;

const LIBRARY_CODE: &str = include_str!("../../../data/library_code.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserCodeFile {
    paths: String,
    packages: Vec<String>,
    standard_library: Vec<String>,
}

/// The built-in list of library code.
struct LibraryCode {
    paths: Regex,
    names: BTreeSet<String>,
}

fn built_in() -> &'static LibraryCode {
    static CODE: OnceLock<LibraryCode> = OnceLock::new();
    CODE.get_or_init(|| {
        let file: UserCodeFile = toml::from_str(LIBRARY_CODE).expect("a test reads the built-in list");
        LibraryCode {
            paths: Regex::new(&file.paths).expect("a test reads the built-in list"),
            names: file.packages.into_iter().chain(file.standard_library).collect(),
        }
    })
}

/// What counts as user code.
#[derive(Debug, Clone, Default)]
pub struct UserCode {
    /// Every Python function counts as the user's.
    pub(crate) all_frames: bool,
    user: Vec<Regex>,
    library: Vec<Regex>,
}

impl UserCode {
    /// `user` and `library`: patterns of paths, joined by commas, in which `*` is any text and `?` any
    /// character. They decide before the built-in list, `user` first.
    pub fn new(all_frames: bool, user: Option<&str>, library: Option<&str>) -> Self {
        Self { all_frames, user: patterns(user), library: patterns(library) }
    }

    /// Whether a file is user code.
    pub fn holds(&self, file: &str) -> bool {
        let matches = |patterns: &[Regex]| patterns.iter().any(|p| p.is_match(file));
        if self.all_frames || matches(&self.user) {
            return true;
        }
        !matches(&self.library) && !is_library(file)
    }
}

fn is_library(file: &str) -> bool {
    let code = built_in();
    let first = file.split(['/', '\\']).next().unwrap_or_default();
    code.names.contains(first.strip_suffix(".py").unwrap_or(first)) || code.paths.is_match(file)
}

fn patterns(text: Option<&str>) -> Vec<Regex> {
    let regex = |glob: &str| {
        let text = regex::escape(glob).replace(r"\*", ".*").replace(r"\?", ".");
        Regex::new(&format!("(?s)^{text}$")).ok()
    };
    text.into_iter().flat_map(|t| t.split(',')).filter(|t| !t.is_empty()).filter_map(regex).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_by_the_first_part_of_the_path() {
        let code = UserCode::default();
        for file in [
            "torch/nn/modules/linear.py",
            "threading.py",
            "concurrent/futures/thread.py",
            "<frozen abc>",
            "<string>",
            "/opt/venv/lib/python3.12/site-packages/x/y.py",
            "/usr/lib/python3/dist-packages/x.py",
            "/usr/lib/python3.10/threading.py",
            "/src/pytorch/torch/nn/functional.py",
            "/src/pytorch/torch/_dynamo/eval_frame.py",
            r"C:\venv\lib\python3.11\site-packages\x.py",
            r"torch\nn\modules\linear.py",
        ] {
            assert!(!code.holds(file), "{file}");
        }
        for file in [
            "train.py",
            "/home/me/train.py",
            "/srv/queue.py",
            r"C:\work\queue.py",
            "/root/torch/train.py",
            "transformers/utils/logging.py",
            "tqdm/_monitor.py",
            "torches.py",
        ] {
            assert!(code.holds(file), "{file}");
        }
    }

    #[test]
    fn patterns_of_the_user_decide_before_the_list() {
        let code = UserCode::new(
            false,
            Some("torch/optim/*,thread?ng.py"),
            Some("transformers/*,torch/optim/adam.py"),
        );
        assert!(
            code.holds("torch/optim/sgd.py")
                && code.holds("threading.py")
                && code.holds("torch/optim/adam.py")
        );
        assert!(
            !code.holds("torch/nn/init.py")
                && !code.holds("transformers/models/x.py")
                && code.holds("train.py")
        );
        assert!(UserCode::new(true, None, Some("*")).holds("torch/nn/init.py"));
    }
}
