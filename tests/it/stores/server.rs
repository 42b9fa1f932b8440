//! A store for tests: as much of the S3 protocol as reading and writing need, in memory, with faults on demand. A path is
//! served as a plain file, too, as a server of files would.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What goes wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mishap {
    None,
    /// Answers with a status instead.
    Status(u16),
    /// Closes the connection after that many bytes of the body.
    Reset(usize),
    /// Ends the body after that many bytes, and claims that it is all of it.
    Short(usize),
    /// Stops for that long after that many bytes of the body.
    Stall(usize, Duration),
    /// Leads to another URL.
    Redirect(String),
    /// Ignores that only a part was asked for.
    Whole,
    /// Answers with this body.
    Body(String),
}

/// A request, as mishaps see it.
pub struct Asked<'a> {
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Number of requests before it.
    pub number: usize,
}

type Plan = Box<dyn Fn(&Asked) -> Mishap + Send + Sync>;

#[derive(Default)]
struct Content {
    objects: BTreeMap<String, Vec<u8>>,
    /// Parts of unfinished uploads by their ids.
    uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    log: Vec<String>,
    signers: BTreeSet<String>,
}

pub struct Store {
    address: String,
    content: Arc<Mutex<Content>>,
    plan: Arc<Mutex<Plan>>,
}

impl Store {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let content: Arc<Mutex<Content>> = Arc::default();
        let plan: Arc<Mutex<Plan>> = Arc::new(Mutex::new(Box::new(|_| Mishap::None)));
        let (held, planned) = (Arc::clone(&content), Arc::clone(&plan));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (content, plan) = (Arc::clone(&held), Arc::clone(&planned));
                std::thread::spawn(move || serve(stream, &content, &plan));
            }
        });
        Self { address, content, plan }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lets requests fail from now on.
    pub fn plan(&self, plan: impl Fn(&Asked) -> Mishap + Send + Sync + 'static) {
        *self.plan.lock().expect("not poisoned") = Box::new(plan);
    }

    pub fn put(&self, key: &str, bytes: &[u8]) {
        self.content.lock().expect("not poisoned").objects.insert(key.to_string(), bytes.to_vec());
    }

    /// The objects below a prefix, by their names relative to it.
    pub fn objects(&self, prefix: &str) -> BTreeMap<String, Vec<u8>> {
        let content = self.content.lock().expect("not poisoned");
        let below = content
            .objects
            .iter()
            .filter_map(|(k, v)| Some((k.strip_prefix(prefix)?.to_string(), v.clone())));
        below.collect()
    }

    /// Number of uploads that were begun and neither completed nor aborted.
    pub fn open_uploads(&self) -> usize {
        self.content.lock().expect("not poisoned").uploads.len()
    }

    /// Methods and targets of all requests so far, and a line for each object that was removed with others.
    pub fn log(&self) -> Vec<String> {
        self.content.lock().expect("not poisoned").log.clone()
    }

    /// By whom requests were signed so far: key, region and session token, as far as they have them. Signatures are not
    /// checked.
    pub fn signers(&self) -> BTreeSet<String> {
        self.content.lock().expect("not poisoned").signers.clone()
    }
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

fn decoded(text: &str) -> String {
    let (bytes, mut out, mut i) = (text.as_bytes(), Vec::new(), 0);
    while i < bytes.len() {
        let hex =
            text.get(i + 1..i + 3).and_then(|h| u8::from_str_radix(h, 16).ok()).filter(|_| bytes[i] == b'%');
        out.push(hex.unwrap_or(bytes[i]));
        i += if hex.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out).expect("UTF-8")
}

fn serve(stream: TcpStream, content: &Mutex<Content>, plan: &Mutex<Plan>) {
    // A body is sent behind its head; without this it waits 40 ms for the client to acknowledge the head.
    stream.set_nodelay(true).expect("an open connection");
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut out = stream;
    while let Some((target, request)) = read(&mut reader) {
        let number = {
            let mut content = content.lock().expect("not poisoned");
            content.log.push(format!("{} {target}", request.method));
            content.signers.insert(signer(&request));
            content.log.len() - 1
        };
        let mishap = {
            let plan = plan.lock().expect("not poisoned");
            plan(&Asked { method: &request.method, target: &target, number })
        };
        if answer(&mut out, &request, content, mishap).is_none() {
            return;
        }
    }
}

fn signer(request: &Request) -> String {
    let signed = request.headers.get("authorization").and_then(|a| a.split_once("Credential="));
    let parts: Vec<&str> = signed.map_or(Vec::new(), |(_, rest)| rest.split('/').collect());
    let token = request.headers.get("x-amz-security-token").map(String::as_str);
    // Between key and region is the date.
    let parts = [parts.first().copied(), parts.get(2).copied(), token];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn read(reader: &mut impl BufRead) -> Option<(String, Request)> {
    let line = |reader: &mut dyn BufRead| {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        Some(line.trim_end().to_string())
    };
    let first = line(reader)?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_string(), words.next()?.to_string());
    let mut headers = BTreeMap::new();
    while let Some(header) = line(reader).filter(|l| !l.is_empty()) {
        let (name, value) = header.split_once(':')?;
        headers.insert(name.to_lowercase(), value.trim().to_string());
    }
    let length = headers.get("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter(|p| !p.is_empty()).map(|p| p.split_once('=').unwrap_or((p, "")));
    let query = pairs.map(|(k, v)| (decoded(k), decoded(v))).collect();
    let path = decoded(path).trim_start_matches('/').to_string();
    Some((target, Request { method, path, query, headers, body }))
}

/// Sends an answer; `None` if the connection is to be closed.
fn answer(out: &mut TcpStream, request: &Request, content: &Mutex<Content>, mishap: Mishap) -> Option<()> {
    let (status, mut headers, body) = match &mishap {
        Mishap::Status(status) => (*status, Vec::new(), b"<Error><Code>Mishap</Code></Error>".to_vec()),
        Mishap::Body(text) => (200, Vec::new(), text.clone().into_bytes()),
        Mishap::Redirect(url) => (302, vec![format!("Location: {url}")], Vec::new()),
        _ => respond(request, &mut content.lock().expect("not poisoned"), mishap == Mishap::Whole),
    };
    let sent = if let Mishap::Short(n) = mishap { body.len().min(n) } else { body.len() };
    let is_head = request.method == "HEAD";
    headers.push(format!("Content-Length: {}", if is_head { body.len() } else { sent }));
    let head = format!("HTTP/1.1 {status} Status\r\n{}\r\n\r\n", headers.join("\r\n"));
    out.write_all(head.as_bytes()).ok()?;
    if is_head {
        return Some(());
    }
    match mishap {
        Mishap::Reset(n) if n < sent => {
            out.write_all(&body[..n]).ok()?;
            out.flush().ok()?;
            let _ = out.shutdown(std::net::Shutdown::Both);
            None
        }
        Mishap::Stall(n, time) => {
            out.write_all(&body[..n.min(sent)]).ok()?;
            out.flush().ok()?;
            std::thread::sleep(time);
            out.write_all(&body[n.min(sent)..sent]).ok()
        }
        _ => out.write_all(&body[..sent]).ok(),
    }
}

type Response = (u16, Vec<String>, Vec<u8>);

fn etag(bytes: &[u8]) -> String {
    let sum =
        bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    format!("\"{sum:016x}\"")
}

const DATE: &str = "Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT";

fn respond(request: &Request, content: &mut Content, whole: bool) -> Response {
    let has = |name: &str| request.query.contains_key(name);
    let given = |name: &str| request.query.get(name).cloned().unwrap_or_default();
    let xml = |text: String| (200, vec!["Content-Type: application/xml".to_string()], text.into_bytes());
    match request.method.as_str() {
        "GET" if has("list-type") => xml(listing(&request.path, &given("prefix"), has("delimiter"), content)),
        "GET" | "HEAD" => object(request, content, whole),
        "PUT" if has("partNumber") => {
            let Some(parts) = content.uploads.get_mut(&given("uploadId")) else {
                return (404, Vec::new(), Vec::new());
            };
            parts.insert(given("partNumber").parse().expect("a number"), request.body.clone());
            (200, vec![format!("ETag: {}", etag(&request.body))], Vec::new())
        }
        "PUT" => {
            content.objects.insert(request.path.clone(), request.body.clone());
            (200, vec![format!("ETag: {}", etag(&request.body))], Vec::new())
        }
        "POST" if has("uploads") => {
            let id = format!("upload-{}", content.log.len());
            content.uploads.insert(id.clone(), BTreeMap::new());
            xml(format!(
                "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
            ))
        }
        "POST" if has("uploadId") => {
            let Some(parts) = content.uploads.remove(&given("uploadId")) else {
                return (404, Vec::new(), Vec::new());
            };
            let bytes: Vec<u8> = parts.into_values().flatten().collect();
            let tag = etag(&bytes);
            content.objects.insert(request.path.clone(), bytes);
            xml(format!("<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>"))
        }
        "POST" if has("delete") => {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            let mut removed = String::new();
            for key in body.split("<Key>").skip(1).filter_map(|part| part.split("</Key>").next()) {
                let object = format!("{}/{key}", request.path.trim_end_matches('/'));
                content.objects.remove(&object);
                content.log.push(format!("DELETE /{object}"));
                removed.push_str(&format!("<Deleted><Key>{key}</Key></Deleted>"));
            }
            xml(format!("<DeleteResult>{removed}</DeleteResult>"))
        }
        "DELETE" if has("uploadId") => {
            content.uploads.remove(&given("uploadId"));
            (204, Vec::new(), Vec::new())
        }
        "DELETE" => {
            content.objects.remove(&request.path);
            (204, Vec::new(), Vec::new())
        }
        _ => (405, Vec::new(), Vec::new()),
    }
}

fn listing(bucket: &str, prefix: &str, direct: bool, content: &Content) -> String {
    let root = format!("{}/", bucket.trim_end_matches('/'));
    let (mut objects, mut folders) = (String::new(), BTreeMap::new());
    for (key, bytes) in content.objects.iter().filter_map(|(k, v)| Some((k.strip_prefix(&root)?, v))) {
        let Some(rest) = key.strip_prefix(prefix) else { continue };
        match rest.split_once('/').filter(|_| direct) {
            Some((folder, _)) => drop(folders.insert(format!("{prefix}{folder}/"), ())),
            None => {
                let (size, tag) = (bytes.len(), etag(bytes));
                objects.push_str(&format!(
                    "<Contents><Key>{key}</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified><ETag>{tag}</ETag>\
                     <Size>{size}</Size></Contents>"
                ));
            }
        }
    }
    let folders: String =
        folders.keys().map(|f| format!("<CommonPrefixes><Prefix>{f}</Prefix></CommonPrefixes>")).collect();
    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{objects}{folders}</ListBucketResult>")
}

fn object(request: &Request, content: &Content, whole: bool) -> Response {
    let Some(bytes) = content.objects.get(&request.path) else {
        return (404, Vec::new(), b"<Error><Code>NoSuchKey</Code></Error>".to_vec());
    };
    let tag = etag(bytes);
    if request.headers.get("if-match").is_some_and(|wanted| *wanted != tag) {
        return (412, Vec::new(), Vec::new());
    }
    let mut headers = vec![format!("ETag: {tag}"), DATE.to_string(), "Accept-Ranges: bytes".to_string()];
    let range = request.headers.get("range").filter(|_| !whole).and_then(|r| r.strip_prefix("bytes="));
    let Some((start, end)) = range.and_then(|r| r.split_once('-')) else {
        return (200, headers, bytes.clone());
    };
    let start: usize = start.parse().expect("a number");
    if start >= bytes.len() {
        return (416, Vec::new(), Vec::new());
    }
    let end = end.parse().map_or(bytes.len(), |e: usize| (e + 1).min(bytes.len()));
    headers.push(format!("Content-Range: bytes {start}-{}/{}", end - 1, bytes.len()));
    (206, headers, bytes[start..end].to_vec())
}
