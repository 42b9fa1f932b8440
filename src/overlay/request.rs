//! What a request to the server of an overlay is answered.
//!
//! A browser lets any page send requests to this machine, so the server answers only what the viewer asks:
//! one path, by its own name (`Host`, against names of other sites that lead here), for the viewer's page
//! (`Origin`).

use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::{Request, StatusCode};

/// The page of the viewer, as browsers name it in `Origin`.
pub const VIEWER: &str = "https://ui.perfetto.dev";

/// Answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The file.
    File,
    /// A browser asks whether the page may send the request.
    Preflight,
    /// Another host or page.
    Forbidden,
    /// Another path. The viewer first asks for a server of its own on this port, and goes on when there is
    /// none.
    NotFound,
    /// Another method.
    NotAllowed,
}

impl Reply {
    pub fn status(self) -> StatusCode {
        match self {
            Reply::File => StatusCode::OK,
            Reply::Preflight => StatusCode::NO_CONTENT,
            Reply::Forbidden => StatusCode::FORBIDDEN,
            Reply::NotFound => StatusCode::NOT_FOUND,
            Reply::NotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        }
    }
}

/// The answer to a request, on a server of `path` at `port`.
pub fn reply<B>(request: &Request<B>, path: &str, port: u16) -> Reply {
    let given =
        |name: HeaderName| request.headers().get_all(name).iter().map(|v| v.as_bytes()).collect::<Vec<_>>();
    let own = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let is_own =
        matches!(given(HOST)[..], [one] if own.iter().any(|o| o.as_bytes().eq_ignore_ascii_case(one)));
    if !is_own || given(ORIGIN) != [VIEWER.as_bytes()] {
        return Reply::Forbidden;
    }
    match request.method().as_str() {
        _ if *request.uri() != *path => Reply::NotFound,
        "GET" => Reply::File,
        "OPTIONS" => Reply::Preflight,
        _ => Reply::NotAllowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [(&str, &str); 2] = [("Host", "127.0.0.1:9001"), ("Origin", VIEWER)];

    fn of(method: &str, target: &str, headers: &[(&str, &str)]) -> Reply {
        let request = Request::builder().method(method).uri(target);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        reply(&request.body(()).unwrap(), "/trace.json", 9001)
    }

    #[test]
    fn the_viewer_gets_the_file_and_its_preflight() {
        assert_eq!(of("GET", "/trace.json", &OWN), Reply::File);
        assert_eq!(of("OPTIONS", "/trace.json", &OWN), Reply::Preflight);
        let small = [("host", "localhost:9001"), ("origin", VIEWER)];
        assert_eq!(of("GET", "/trace.json", &small), Reply::File);
    }

    #[test]
    fn others_get_nothing() {
        let get = |headers: &[(&str, &str)]| of("GET", "/trace.json", headers);
        let host = OWN[0];
        assert_eq!(get(&[host]), Reply::Forbidden);
        assert_eq!(get(&[host, ("Origin", "https://evil.example")]), Reply::Forbidden);
        assert_eq!(get(&[host, ("Origin", "https://ui.perfetto.dev.evil.example")]), Reply::Forbidden);
        assert_eq!(get(&[host, ("Origin", "null"), OWN[1]]), Reply::Forbidden);
        assert_eq!(get(&[("Host", "evil.example:9001"), OWN[1]]), Reply::Forbidden);
        assert_eq!(get(&[host, ("Host", "evil.example:9001"), OWN[1]]), Reply::Forbidden);
        assert_eq!(get(&[OWN[1]]), Reply::Forbidden);
        assert_eq!(get(&[]), Reply::Forbidden);
    }

    #[test]
    fn one_path_and_two_methods_are_answered() {
        assert_eq!(of("POST", "/status", &OWN), Reply::NotFound);
        assert_eq!(of("GET", "/../etc/passwd", &OWN), Reply::NotFound);
        assert_eq!(of("GET", "/trace.json?a", &OWN), Reply::NotFound);
        assert_eq!(of("GET", "http://127.0.0.1:9001/trace.json", &OWN), Reply::NotFound);
        assert_eq!(of("DELETE", "/trace.json", &OWN), Reply::NotAllowed);
    }
}
