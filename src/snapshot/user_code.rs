//! Which source files are the user's own: not Python's library, not an installed package, not PyTorch.

/// Folders of installed code.
const INSTALLED: [&str; 2] = ["site-packages/", "dist-packages/"];

/// Folders of PyTorch that tell a copy of it that was built from source.
const OF_TORCH: [&str; 6] =
    ["/torch/nn/", "/torch/optim/", "/torch/autograd/", "/torch/utils/", "/torch/_", "/torch/cuda/"];

/// Packages and modules of Python's library, by which a path that is relative to `sys.path` is known.
const LIBRARIES: &[&str] = &[
    "torch",
    "torchvision",
    "torchaudio",
    "functorch",
    "triton",
    "numpy",
    "PIL",
    "pandas",
    "scipy",
    "einops",
    "__future__",
    "_collections_abc",
    "_weakrefset",
    "abc",
    "argparse",
    "ast",
    "asyncio",
    "atexit",
    "base64",
    "bdb",
    "bisect",
    "bz2",
    "calendar",
    "cmd",
    "code",
    "codecs",
    "codeop",
    "collections",
    "concurrent",
    "configparser",
    "contextlib",
    "contextvars",
    "copy",
    "copyreg",
    "csv",
    "ctypes",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "dis",
    "email",
    "encodings",
    "enum",
    "filecmp",
    "fileinput",
    "fnmatch",
    "fractions",
    "ftplib",
    "functools",
    "genericpath",
    "getopt",
    "getpass",
    "gettext",
    "glob",
    "gzip",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "http",
    "imaplib",
    "importlib",
    "inspect",
    "io",
    "ipaddress",
    "json",
    "keyword",
    "linecache",
    "locale",
    "logging",
    "lzma",
    "mailbox",
    "mimetypes",
    "multiprocessing",
    "netrc",
    "ntpath",
    "numbers",
    "opcode",
    "operator",
    "optparse",
    "os",
    "pathlib",
    "pdb",
    "pickle",
    "pickletools",
    "pkgutil",
    "platform",
    "plistlib",
    "posixpath",
    "pprint",
    "profile",
    "pstats",
    "pty",
    "pydoc",
    "queue",
    "quopri",
    "random",
    "re",
    "reprlib",
    "runpy",
    "sched",
    "secrets",
    "selectors",
    "shelve",
    "shlex",
    "shutil",
    "signal",
    "site",
    "smtplib",
    "socket",
    "socketserver",
    "sqlite3",
    "sre_compile",
    "sre_constants",
    "sre_parse",
    "ssl",
    "stat",
    "statistics",
    "string",
    "stringprep",
    "struct",
    "subprocess",
    "symtable",
    "sysconfig",
    "tabnanny",
    "tarfile",
    "tempfile",
    "textwrap",
    "threading",
    "timeit",
    "token",
    "tokenize",
    "tomllib",
    "trace",
    "traceback",
    "tracemalloc",
    "types",
    "typing",
    "unittest",
    "urllib",
    "uuid",
    "venv",
    "warnings",
    "wave",
    "weakref",
    "webbrowser",
    "wsgiref",
    "xml",
    "xmlrpc",
    "zipapp",
    "zipfile",
    "zipimport",
    "zoneinfo",
];

/// Whether a file of Python is the user's own code.
pub fn is_user_code(path: &str) -> bool {
    let path = path.replace('\\', "/");
    if path.is_empty() || path.starts_with('<') || INSTALLED.iter().any(|folder| path.contains(folder)) {
        return false;
    }
    if in_python_library(&path) || OF_TORCH.iter().any(|folder| path.contains(folder)) {
        return false;
    }
    let is_absolute = path.starts_with('/') || path.get(1..3) == Some(":/");
    if is_absolute {
        return true;
    }
    let first = path.split('/').next().unwrap_or_default();
    let first = first.strip_suffix(".py").unwrap_or(first);
    !LIBRARIES.contains(&first)
}

/// Whether a path leads through `lib/python3.N/`.
fn in_python_library(path: &str) -> bool {
    let Some((_, behind)) = path.split_once("lib/python3.") else { return false };
    let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && behind.get(digits..).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_the_user_is_what_is_not_installed() {
        for user in
            ["/home/me/train.py", "train.py", "transformers/models/bert.py", "C:\\work\\queue.py", "/srv/queue.py"]
        {
            assert!(is_user_code(user), "{user}");
        }
        for library in [
            "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py",
            "C:\\env\\Lib\\site-packages\\torch\\optim\\adam.py",
            "/usr/lib/python3.12/threading.py",
            "threading.py",
            "torch/optim/adam.py",
            "/src/pytorch/torch/nn/functional.py",
            "<frozen importlib._bootstrap>",
            "<string>",
            "",
        ] {
            assert!(!is_user_code(library), "{library}");
        }
    }
}
