//! Lists of objects as servers send them, held to what a list can be.
//!
//! ```text
//!   hta -> object_store -> Lists -> server
//!                          |  an answer that never ends        refused after LONGEST bytes
//!                          |  pages without end, or repeated   refused after MOST_PAGES
//!                          |  a key that no path can have      taken out of the page, and told
//! ```
//!
//! The crate reads a whole page, asks for the next one as long as the server names one, and refuses a page if
//! one of its keys has an empty part, `.`, `..` or a control character. So one such key would hide a folder,
//! and a server could fill the memory. Such keys are told beside the others ([`UnreadableKeys`]): whoever
//! opens one learns what is wrong with it.

use super::fault::Fault;
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::client::{
    HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::path::Path as Key;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind::InvalidData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longest page of a list, bytes. A page has 5,000 objects at most, each with some hundred bytes of
/// properties.
const LONGEST: usize = 16 << 20;

/// Most pages of a list, and the longest list, bytes. A page has 1,000 objects with most servers.
const MOST_PAGES: u32 = 500;
const LONGEST_LIST: u64 = 256 << 20;

/// Longest answer that says what went wrong, bytes.
const LONGEST_ERROR: usize = 64 << 10;

/// Lists that are being read, at most. The rest of a list that was not read to its end is forgotten.
const MOST_LISTS: usize = 1 << 10;

/// Elements of a page that stand for an object, with the one that holds its key.
const OBJECTS: [(&str, &str); 2] = [("Contents", "Key"), ("Blob", "Name")];

/// Elements of a page that stand for a folder.
const FOLDERS: [(&str, &str); 2] = [("CommonPrefixes", "Prefix"), ("BlobPrefix", "Name")];

/// Elements that name the next page.
const NEXT: [&str; 2] = ["NextContinuationToken", "NextMarker"];

/// Keys that no path can have, which were taken out of lists, by store.
#[derive(Debug, Clone, Default)]
pub(super) struct UnreadableKeys(Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>);

impl UnreadableKeys {
    /// Those below a folder of a store, and those that lead out of every folder.
    pub(crate) fn below(&self, root: &str, folder: &Key) -> Vec<String> {
        let is_below = |key: &&String| {
            below(folder.as_ref(), key).is_some() || key.starts_with("../") || key.starts_with('/')
        };
        locked(&self.0).get(root).into_iter().flatten().filter(is_below).cloned().collect()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What follows a folder in a key.
pub(super) fn below<'a>(folder: &str, key: &'a str) -> Option<&'a str> {
    if folder.is_empty() { Some(key) } else { key.strip_prefix(folder)?.strip_prefix('/') }
}

/// How much of a list was read.
#[derive(Debug, Clone, Copy, Default)]
struct ListProgress {
    pages: u32,
    bytes: u64,
}

/// A client that looks at the lists it receives.
#[derive(Debug)]
pub(super) struct Lists {
    client: reqwest::Client,
    /// The store, as `s3://bucket`.
    root: String,
    unreadable: UnreadableKeys,
    /// By the name of the next page.
    open: Mutex<BTreeMap<String, ListProgress>>,
}

impl HttpService for Lists {
    fn call<'a, 'f>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let query = request.uri().query().unwrap_or_default();
            let is_list = query.split('&').any(|pair| pair == "list-type=2" || pair == "comp=list");
            let asked = asked_page(query);
            let (parts, body) = self.client.call(request).await?.into_parts();
            if !parts.status.is_success() {
                // It is only told. What is longer is cut.
                let begin = begin(body, LONGEST_ERROR).await?.0;
                return Ok(HttpResponse::from_parts(parts, begin.into()));
            }
            if !is_list {
                return Ok(HttpResponse::from_parts(parts, body));
            }
            let (page, is_whole) = begin(body, LONGEST).await?;
            if !is_whole {
                return Err(refused(format!(
                    "the store's list does not end: a page is longer than {} MiB",
                    LONGEST >> 20
                )));
            }
            count(&mut locked(&self.open), asked, &page)?;
            Ok(HttpResponse::from_parts(parts, self.readable(page)))
        })
    }
}

/// Counts a page of a list; `open` are lists that go on, by the name of their next page.
fn count(
    open: &mut BTreeMap<String, ListProgress>,
    asked: Option<String>,
    page: &[u8],
) -> Result<(), HttpError> {
    let text = String::from_utf8_lossy(page);
    let next = NEXT.iter().find_map(|name| inner(&text, name)).map(unescaped).filter(|n| !n.is_empty());
    let ListProgress { pages, bytes } = asked.as_ref().and_then(|name| open.remove(name)).unwrap_or_default();
    let Some(next) = next else { return Ok(()) };
    if asked.as_ref() == Some(&next) {
        return Err(refused(
            "the store's list does not end: a page names itself as the next one".to_string(),
        ));
    }
    let read = ListProgress { pages: pages + 1, bytes: bytes + page.len() as u64 };
    if read.pages >= MOST_PAGES || read.bytes >= LONGEST_LIST {
        let (pages, size) = (read.pages, read.bytes >> 20);
        return Err(refused(format!("the store's list does not end: {pages} pages ({size} MiB) were read")));
    }
    if open.len() >= MOST_LISTS {
        open.clear();
    }
    open.insert(next, read);
    Ok(())
}

impl Lists {
    pub(crate) fn new(client: reqwest::Client, root: String, unreadable: UnreadableKeys) -> Self {
        Self { client, root, unreadable, open: Mutex::default() }
    }

    /// A page without the keys that no path can have.
    fn readable(&self, page: Bytes) -> HttpResponseBody {
        let Ok(text) = std::str::from_utf8(&page) else { return page.into() };
        let mut kept = None;
        for (of, is_object) in [(OBJECTS, true), (FOLDERS, false)] {
            for (element, name) in of {
                let (left, taken) = without_unreadable(kept.as_deref().unwrap_or(text), element, name);
                if taken.is_empty() {
                    continue;
                }
                kept = Some(left);
                if is_object {
                    locked(&self.unreadable.0).entry(self.root.clone()).or_default().extend(taken);
                }
            }
        }
        kept.map_or_else(|| page.clone().into(), HttpResponseBody::from)
    }
}

fn refused(reason: String) -> HttpError {
    let hint = "is this the address of a store? name a folder with fewer objects";
    HttpError::new(HttpErrorKind::Unknown, Fault::new(InvalidData, reason, Some(hint)))
}

/// The page that a request asks for; `None` for the first.
fn asked_page(query: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value =
        pairs.filter(|(name, _)| ["continuation-token", "marker"].contains(name)).map(|(_, v)| v).next()?;
    // Percent-encoded, with `+` for a blank.
    let url = reqwest::Url::parse(&format!("http://a/?v={value}")).ok()?;
    url.query_pairs().next().map(|(_, value)| value.into_owned())
}

/// The first bytes of an answer, and whether they are all.
async fn begin(body: HttpResponseBody, most: usize) -> Result<(Bytes, bool), HttpError> {
    let (mut frames, mut bytes) = (body.bytes_stream(), Vec::new());
    while let Some(frame) = frames.next().await {
        let frame = frame?;
        let room = most - bytes.len();
        bytes.extend_from_slice(frame.get(..room.min(frame.len())).unwrap_or_default());
        if frame.len() > room {
            return Ok((bytes.into(), false));
        }
    }
    Ok((bytes.into(), true))
}

/// A page without the elements whose key no path can have, and these keys.
fn without_unreadable(page: &str, element: &str, name: &str) -> (String, Vec<String>) {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let (mut kept, mut taken) = (String::new(), Vec::new());
    let mut rest = page;
    while let Some(start) = rest.find(&open) {
        let Some(length) = rest.get(start..).and_then(|r| r.find(&close)) else { break };
        let (before, with) = rest.split_at(start);
        let (whole, after) = with.split_at(length + close.len());
        kept.push_str(before);
        match inner(whole, name).map(unescaped).filter(|key| key.starts_with('/') || Key::parse(key).is_err())
        {
            Some(key) => taken.push(key),
            None => kept.push_str(whole),
        }
        rest = after;
    }
    kept.push_str(rest);
    (kept, taken)
}

/// The text of the first element of this name, which may have attributes.
fn inner<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let open = format!("<{name}");
    let after = text
        .match_indices(&open)
        .find_map(|(at, _)| text.get(at + open.len()..).filter(|rest| rest.starts_with(['>', ' '])))?;
    let (_, after) = after.split_once('>')?;
    after.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
}

/// A text with its entities replaced.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, with)) = rest.split_once('&') {
        out.push_str(before);
        let found = with.split_once(';').and_then(|(entity, after)| Some((character(entity)?, after)));
        match found {
            Some((c, after)) => {
                out.push(c);
                rest = after;
            }
            None => {
                out.push('&');
                rest = with;
            }
        }
    }
    out + rest
}

fn character(entity: &str) -> Option<char> {
    match entity {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = entity.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_does_not_end_is_refused() {
        let page =
            |next: &str| format!("<L><NextContinuationToken>{next}</NextContinuationToken></L>").into_bytes();
        let mut open = BTreeMap::new();
        assert!(count(&mut open, None, &page("a")).is_ok());
        assert!(count(&mut open, Some("a".to_string()), &page("a")).is_err());
        // Two lists at a time, and one that goes in a circle.
        let mut asked = (None, None);
        let mut pages = 0;
        while count(&mut open, asked.0.clone(), &page(["x", "y"][pages % 2])).is_ok() {
            asked.0 = Some(["x", "y"][pages % 2].to_string());
            pages += 1;
            if pages < 20 {
                let next = format!("z{pages}");
                assert!(count(&mut open, asked.1.clone(), &page(&next)).is_ok());
                asked.1 = Some(next);
            }
        }
        assert_eq!(pages, MOST_PAGES as usize - 1);
        assert!(count(&mut open, asked.1, b"<L></L>").is_ok());
    }

    #[test]
    fn keys_that_no_path_can_have_are_taken_out_alone() {
        let item = |key: &str| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>");
        let odd = ["job//a.json", "job/../a.json", "job/a&#x1b;b.json", "../x", "/x"];
        let page =
            |keys: &[&str]| format!("<L><N>b</N>{}</L>", keys.iter().map(|k| item(k)).collect::<String>());
        let all = page(&["job/a&amp;b.json", odd[0], "job/c.json", odd[1], odd[2], odd[3], odd[4]]);
        let (kept, taken) = without_unreadable(&all, "Contents", "Key");
        assert_eq!(kept, page(&["job/a&amp;b.json", "job/c.json"]));
        assert_eq!(taken, ["job//a.json", "job/../a.json", "job/a\u{1b}b.json", "../x", "/x"]);
        let blobs = "<Blobs><Blob><Name>a//b</Name></Blob><BlobPrefix><Name>c/</Name></BlobPrefix></Blobs>";
        assert_eq!(
            without_unreadable(blobs, "Blob", "Name"),
            ("<Blobs><BlobPrefix><Name>c/</Name></BlobPrefix></Blobs>".to_string(), vec!["a//b".to_string()])
        );
    }

    #[test]
    fn the_next_page_is_found_and_the_asked_one_is_decoded() {
        assert_eq!(
            inner("<L><NextMarker a='1'>x&amp;y</NextMarker></L>", "NextMarker").map(unescaped).unwrap(),
            "x&y"
        );
        assert_eq!(inner("<L><NextMarker/></L>", "NextMarker"), None);
        assert_eq!(asked_page("continuation-token=a%2Bb%3D&list-type=2").as_deref(), Some("a+b="));
        assert_eq!(asked_page("list-type=2&prefix=job%2F"), None);
        assert_eq!(
            (unescaped("a&b;&#65;&#x42;&lt;"), unescaped("&")),
            ("a&b;AB<".to_string(), "&".to_string())
        );
    }

    #[test]
    fn what_follows_a_folder_begins_behind_its_slash() {
        assert_eq!(
            (below("job", "job//a"), below("job", "job2/a"), below("", "a")),
            (Some("/a"), None, Some("a"))
        );
    }
}
