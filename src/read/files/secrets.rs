//! Secrets in URLs: signed queries, which only the stores are given, and passwords, which are refused.
//!
//! The query of a URL is taken away before anything else sees the argument, so that no name, message, table
//! or report can contain it. Only the request itself gets it back.

use super::scheme::has_scheme;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Queries of the URLs of a command line, by the URL without it.
#[derive(Clone, Default)]
pub struct Queries(BTreeMap<String, String>);

impl Queries {
    /// The query that was taken away from a URL.
    pub(super) fn of(&self, url: &str) -> Option<String> {
        self.0.get(url).cloned()
    }
}

/// Stands for the user and password of a URL, so that it is refused without being shown.
pub(super) const PASSWORD: &str = "PASSWORD@";

/// Takes the queries and passwords out of all URLs among the arguments of a command line.
pub fn without_secrets(arguments: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Queries) {
    let mut queries = BTreeMap::new();
    let mut clean = |argument: OsString| {
        let Some((clean, query)) = argument.to_str().and_then(cut) else { return argument };
        if let Some(query) = query {
            let url =
                clean.split_once('=').filter(|_| clean.starts_with('-')).map_or(&*clean, |(_, url)| url);
            queries.insert(url.to_string(), query);
        }
        clean.into()
    };
    let arguments = arguments.into_iter().map(&mut clean).collect();
    (arguments, Queries(queries))
}

/// An argument that is a URL, or an option with one behind `=`: without query and password, and the query.
/// `None` if it has neither. In URLs of stores `?` is part of a pattern, unless a value follows as in a
/// query.
fn cut(argument: &str) -> Option<(String, Option<String>)> {
    let start = match argument.starts_with('-') {
        true => argument.find('=')? + 1,
        false => 0,
    };
    let (option, url) = argument.split_at(start);
    if !has_scheme(url) {
        return None;
    }
    let is_query = |q: &str| url.starts_with("http") || q.contains('=');
    let (place, query) = match url.split_once('?').filter(|(_, q)| is_query(q)) {
        Some((place, query)) => (place, Some(query.to_string())),
        None => (url, None),
    };
    let (scheme, rest) = place.split_once("://")?;
    let host_end = rest.find('/').unwrap_or(rest.len());
    let host = match rest[..host_end].rsplit_once('@') {
        Some((_, host)) => format!("{PASSWORD}{host}"),
        None if query.is_none() => return None,
        None => rest[..host_end].to_string(),
    };
    Some((format!("{option}{scheme}://{host}{}", &rest[host_end..]), query))
}

/// A text with the queries and passwords of all URLs in it removed.
pub(super) fn without_queries(text: &str) -> String {
    let clean = |word: &str| {
        let Some(at) = word.find("://") else { return word.to_string() };
        let end = word.find('?').unwrap_or(word.len());
        let (scheme, rest) = word[..end].split_at(at + 3);
        let host_end = rest.find('/').unwrap_or(rest.len());
        let host = rest[..host_end].rsplit('@').next().unwrap_or_default();
        format!("{scheme}{host}{}", &rest[host_end..])
    };
    text.split(' ').map(clean).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parted(argument: &str) -> (String, Queries) {
        let (arguments, queries) = without_secrets([OsString::from(argument)]);
        (arguments[0].to_string_lossy().into_owned(), queries)
    }

    fn cleaned(argument: &str) -> String {
        parted(argument).0
    }

    #[test]
    fn signed_queries_are_taken_out_and_known_to_the_request_alone() {
        let (clean, queries) =
            parted("https://bucket.example/rank_0.json.gz?X-Amz-Signature=abc/def&X-Amz-Date=1");
        assert_eq!(clean, "https://bucket.example/rank_0.json.gz");
        assert_eq!(queries.of(&clean).as_deref(), Some("X-Amz-Signature=abc/def&X-Amz-Date=1"));
        assert_eq!(cleaned("az://traces/rank_1.json?sv=1&sig=secret"), "az://traces/rank_1.json");
        let (clean, queries) = parted("--out=s3://bucket/out?sig=secret");
        assert_eq!(clean, "--out=s3://bucket/out");
        assert_eq!(queries.of("s3://bucket/out").as_deref(), Some("sig=secret"));
    }

    #[test]
    fn patterns_and_other_arguments_stay_as_they_are() {
        for argument in
            ["s3://bucket/rank_?.json", "a?b=c", "SELECT '?x=1'", "--steps=1-3", "-", "https://host/a.json"]
        {
            assert_eq!(cleaned(argument), argument);
        }
    }

    #[test]
    fn passwords_are_never_shown() {
        assert_eq!(cleaned("https://user:secret@host/a.json"), "https://PASSWORD@host/a.json");
        assert_eq!(
            cleaned("--endpoint=http://user:secret@host:9000"),
            "--endpoint=http://PASSWORD@host:9000"
        );
        let text = "error for url (https://u:p@host/a?sig=secret) behind http://host/b";
        assert_eq!(without_queries(text), "error for url (https://host/a behind http://host/b");
    }
}
