//! What a request to the server of an overlay is answered, from its head alone.
//!
//! A browser lets any page send requests to this machine, so the server answers only what the viewer asks: one path, by
//! its own name (`Host`, against names of other sites that lead here), for the viewer's page (`Origin`).

/// The page of the viewer, as browsers name it in `Origin`.
pub const VIEWER: &str = "https://ui.perfetto.dev";

/// Answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The file.
    File,
    /// A browser asks whether the page may send the request.
    Preflight,
    /// The head is no request in HTTP/1.
    Bad,
    /// Another host or page.
    Forbidden,
    /// Another path. The viewer first asks for a server of its own on this port, and goes on when there is none.
    NotFound,
    /// Another method.
    NotAllowed,
}

impl Reply {
    pub fn status(self) -> &'static str {
        match self {
            Reply::File => "200 OK",
            Reply::Preflight => "204 No Content",
            Reply::Bad => "400 Bad Request",
            Reply::Forbidden => "403 Forbidden",
            Reply::NotFound => "404 Not Found",
            Reply::NotAllowed => "405 Method Not Allowed",
        }
    }
}

/// The answer to a request with this head, on a server of `path` at `port`.
pub fn reply(head: &str, path: &str, port: u16) -> Reply {
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) = (first.next(), first.next(), first.next(), first.next())
    else {
        return Reply::Bad;
    };
    if !version.starts_with("HTTP/1.") {
        return Reply::Bad;
    }
    let (mut hosts, mut origins) = (Vec::new(), Vec::new());
    for line in lines.take_while(|l| !l.is_empty()) {
        let Some((name, value)) = line.split_once(':') else { return Reply::Bad };
        match name {
            n if n.eq_ignore_ascii_case("host") => hosts.push(value.trim()),
            n if n.eq_ignore_ascii_case("origin") => origins.push(value.trim()),
            _ => {}
        }
    }
    let own = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let is_own = matches!(hosts.as_slice(), [one] if own.iter().any(|o| o.eq_ignore_ascii_case(one)));
    if !is_own || origins != [VIEWER] {
        return Reply::Forbidden;
    }
    match method {
        _ if target != path => Reply::NotFound,
        "GET" => Reply::File,
        "OPTIONS" => Reply::Preflight,
        _ => Reply::NotAllowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(head: &str) -> Reply {
        reply(&head.replace('\n', "\r\n"), "/trace.json", 9001)
    }

    #[test]
    fn the_viewer_gets_the_file_and_its_preflight() {
        let rest = "Host: 127.0.0.1:9001\nOrigin: https://ui.perfetto.dev\n\n";
        assert_eq!(of(&format!("GET /trace.json HTTP/1.1\n{rest}")), Reply::File);
        assert_eq!(of(&format!("OPTIONS /trace.json HTTP/1.1\n{rest}")), Reply::Preflight);
        let small = "host:localhost:9001\norigin:  https://ui.perfetto.dev\n\n";
        assert_eq!(of(&format!("GET /trace.json HTTP/1.1\n{small}")), Reply::File);
    }

    #[test]
    fn others_get_nothing() {
        let get = |rest: &str| of(&format!("GET /trace.json HTTP/1.1\n{rest}\n\n"));
        assert_eq!(get("Host: 127.0.0.1:9001"), Reply::Forbidden);
        assert_eq!(get("Host: 127.0.0.1:9001\nOrigin: https://evil.example"), Reply::Forbidden);
        assert_eq!(get("Host: 127.0.0.1:9001\nOrigin: https://ui.perfetto.dev.evil.example"), Reply::Forbidden);
        assert_eq!(get("Host: 127.0.0.1:9001\nOrigin: null\nOrigin: https://ui.perfetto.dev"), Reply::Forbidden);
        assert_eq!(get("Host: evil.example:9001\nOrigin: https://ui.perfetto.dev"), Reply::Forbidden);
        assert_eq!(get("Origin: https://ui.perfetto.dev"), Reply::Forbidden);
        assert_eq!(get("Host"), Reply::Bad);
    }

    #[test]
    fn one_path_and_two_methods_are_answered() {
        let rest = "Host: 127.0.0.1:9001\nOrigin: https://ui.perfetto.dev\n\n";
        assert_eq!(of(&format!("POST /status HTTP/1.1\n{rest}")), Reply::NotFound);
        assert_eq!(of(&format!("GET /../etc/passwd HTTP/1.1\n{rest}")), Reply::NotFound);
        assert_eq!(of(&format!("GET /trace.json?a HTTP/1.1\n{rest}")), Reply::NotFound);
        assert_eq!(of(&format!("DELETE /trace.json HTTP/1.1\n{rest}")), Reply::NotAllowed);
        assert_eq!(of(&format!("GET /trace.json SPDY\n{rest}")), Reply::Bad);
        assert_eq!(of("nonsense"), Reply::Bad);
    }
}
