//! URLs of objects: `s3://bucket/key`, `gs://bucket/key`, `az://container/key`, `https://host/path`.
//!
//! A URL is kept as a path like that of a file, so that names, endings and the files of a folder are found in
//! one way. Keys are taken as they are, like other tools for stores do; the path of an `http` URL is
//! percent-encoded.

use super::fault::Fault;
use super::scheme::{SCHEMES, Service};
use super::secrets::{PASSWORD, Queries};
use object_store::path::Path as Key;
use std::io::ErrorKind::InvalidInput;
use std::path::Path;

/// A URL by its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(crate) service: Service,
    /// Scheme and bucket, container or host: `s3://bucket`.
    pub(crate) root: String,
    /// Name of the bucket or container, or the host with its port.
    pub(crate) container: String,
    pub(crate) key: Key,
    /// The signed query of an `http` URL.
    pub(crate) query: Option<String>,
}

impl Address {
    pub fn of(path: &Path, queries: &Queries) -> Result<Self, Fault> {
        let bad = |reason: &str, hint| Fault::new(InvalidInput, reason, hint);
        let url = path.to_str().ok_or_else(|| bad("expected a URL in UTF-8", None))?;
        let known =
            SCHEMES.iter().find_map(|(scheme, service)| Some((*scheme, *service, url.strip_prefix(scheme)?)));
        let (scheme, service, rest) =
            known.ok_or_else(|| bad("expected s3://, gs://, az:// or https://", None))?;
        let (container, key) = rest.split_once('/').unwrap_or((rest, ""));
        if container.contains('@') || container.contains(PASSWORD) {
            let hint = "a password in a URL ends up in the history of the shell; give credentials in the \
                        environment";
            return Err(bad("expected a URL without user and password", Some(hint)));
        }
        if container.is_empty() {
            return Err(bad("expected a bucket or host behind ://", None));
        }
        let begins_empty = key.starts_with('/');
        let key = match service {
            Service::Http => Key::from_url_path(key),
            _ => Key::parse(key),
        };
        // A slash at the beginning would be dropped, and lead to another object.
        let key = key.ok().filter(|_| !begins_empty);
        let key = key.ok_or_else(|| {
            bad("expected a path without empty parts, `.`, `..` and control characters", None)
        })?;
        let query = queries.of(url);
        if query.is_some() && service != Service::Http {
            let hint = "give credentials in the environment, or the whole https:// URL that was signed";
            return Err(bad("expected a URL without a query", Some(hint)));
        }
        Ok(Self {
            service,
            root: format!("{scheme}{container}"),
            container: container.to_string(),
            key,
            query,
        })
    }

    /// The URL of a key of the same store.
    pub(crate) fn url_of(&self, key: &str) -> String {
        format!("{}/{key}", self.root)
    }
}

/// Whether a URL is `inner` or lies below it, by their texts.
pub fn is_within(url: &Path, folder: &Path) -> bool {
    let text = |path: &Path| path.to_string_lossy().trim_end_matches('/').to_string();
    let (url, folder) = (text(url), text(folder));
    url.strip_prefix(&folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let of = |url: &str| Address::of(Path::new(url), &Queries::default()).unwrap();
        let address = of("s3://bucket/a/rank 0%.json");
        assert_eq!(
            (address.service, &*address.root, address.key.as_ref()),
            (Service::S3, "s3://bucket", "a/rank 0%.json")
        );
        let address = of("https://host:8443/a/rank%200.json");
        assert_eq!((&*address.container, address.key.as_ref()), ("host:8443", "a/rank 0.json"));
        assert_eq!(of("gs://bucket").key, Key::ROOT);
    }

    #[test]
    fn what_leads_out_of_the_bucket_is_refused() {
        for url in [
            "s3://bucket/../other/a.json",
            "https://host/%2e%2e/a.json",
            "az://c/a//b",
            "s3://b//a/rank_0.json",
            "s3:///a",
            "https://u:p@host/a",
        ] {
            assert!(Address::of(Path::new(url), &Queries::default()).is_err(), "{url}");
        }
    }

    #[test]
    fn places_within_each_other_are_known_by_whole_names() {
        let within = |a: &str, b: &str| is_within(Path::new(a), Path::new(b));
        assert!(within("s3://b/traces/r0.json", "s3://b/traces/") && within("s3://b/out", "s3://b/out"));
        assert!(!within("s3://b/traces2/r0.json", "s3://b/traces") && !within("s3://b", "s3://b/traces"));
    }
}
