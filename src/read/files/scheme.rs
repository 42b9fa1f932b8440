//! The schemes by which URLs are told from paths of files.

use std::path::Path;

/// What serves the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    S3,
    Google,
    Azure,
    Http,
}

pub(super) const SCHEMES: [(&str, Service); 5] = [
    ("s3://", Service::S3),
    ("gs://", Service::Google),
    ("az://", Service::Azure),
    ("http://", Service::Http),
    ("https://", Service::Http),
];

/// Whether a text is a URL that can be read.
pub(super) fn has_scheme(text: &str) -> bool {
    SCHEMES.iter().any(|(scheme, _)| text.starts_with(scheme))
}

/// Whether a path is a URL.
pub fn is_remote(path: &Path) -> bool {
    path.to_str().is_some_and(has_scheme)
}
