//! Serves one file on this machine to the Perfetto page, which opens what a link names, and ends when it has
//! it.
//!
//! The page may load from port 9001 of this machine only (its content security policy), so there is no other
//! choice of port. Browsers open connections before they need them and send nothing on them, so several are
//! open at a time.

use crate::overlay::request::{Reply, VIEWER, reply};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;

/// The port from which the Perfetto page loads.
pub const PORT: u16 = 9001;

/// Longest head of a request that is read, bytes.
const LONGEST_HEAD: usize = 16 << 10;
/// Most connections that are open at a time; others wait.
const MOST_OPEN: usize = 16;
/// Time that a client has for its request, and for taking each block of the file.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the file that are read at a time.
const BLOCK: usize = 64 << 10;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot serve on 127.0.0.1:{port}: another program uses this port")]
    Taken { port: u16 },
    #[error("cannot serve on 127.0.0.1:{port}: {error}")]
    Listen { port: u16, error: io::Error },
    #[error("cannot serve {path}: {error}")]
    Read { path: String, error: io::Error },
}

impl ServeError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ServeError::Taken { .. } => Some(
                "Perfetto opens links to this port only: end the other program (a trace_processor, or \
                 another --open), or write the file with -o and open it in the page by hand",
            ),
            _ => None,
        }
    }
}

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// The viewer has the whole file.
    Whole,
    /// Nobody has come for it in time, or nobody took it to its end.
    NobodyCame,
}

/// A port that is held, before the file is there.
#[derive(Debug)]
pub struct OverlayServer {
    listener: TcpListener,
    port: u16,
    /// Path in the link; its ending says how the file is compressed.
    path: String,
}

impl OverlayServer {
    /// Takes the port, for a file of this name.
    ///
    /// # Errors
    /// When another program has it.
    pub fn bind(name: &Path) -> Result<Self, ServeError> {
        Self::bind_to(PORT, name)
    }

    fn bind_to(port: u16, name: &Path) -> Result<Self, ServeError> {
        let error = |error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => ServeError::Taken { port },
            _ => ServeError::Listen { port, error },
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(error)?;
        listener.set_nonblocking(true).map_err(error)?;
        let port = listener.local_addr().map_err(error)?.port();
        let ending = match name.extension().and_then(|e| e.to_str()).map(str::to_lowercase).as_deref() {
            Some("gz") => ".gz",
            Some("zst") => ".zst",
            _ => "",
        };
        Ok(Self { listener, port, path: format!("/trace.json{ending}") })
    }

    /// The link that opens the file in the viewer.
    pub fn link(&self) -> String {
        format!("{VIEWER}/#!/?url=http://127.0.0.1:{}{}", self.port, self.path)
    }

    /// Serves a file until the viewer has it, or for `wait`. A transfer that has begun by then is finished.
    ///
    /// # Errors
    /// When the file cannot be read or connections cannot be accepted.
    pub fn serve(self, file: &Path, wait: Duration) -> Result<Served, ServeError> {
        let listen = |error| ServeError::Listen { port: self.port, error };
        let read = |error| ServeError::Read { path: file.display().to_string(), error };
        let size = File::open(file).and_then(|f| f.metadata()).map_err(read)?.len();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(listen)?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener).map_err(listen)?;
            let mut open = FuturesUnordered::new();
            let mut waited = std::pin::pin!(tokio::time::sleep(wait));
            let mut is_waiting = true;
            loop {
                tokio::select! {
                    accepted = listener.accept(), if is_waiting && open.len() < MOST_OPEN => match accepted {
                        Ok((stream, _)) => open.push(answer(stream, self.port, &self.path, (file, size))),
                        Err(e) if is_fatal(&e) => return Err(listen(e)),
                        Err(_) => {}
                    },
                    // A client that goes away is its own loss: the file is there for the next one.
                    Some(is_whole) = open.next() => if is_whole { return Ok(Served::Whole) },
                    () = &mut waited, if is_waiting => is_waiting = false,
                    else => return Ok(Served::NobodyCame),
                }
            }
        })
    }
}

/// Answers one connection. Returns whether the whole file was sent.
async fn answer(stream: TcpStream, port: u16, path: &str, (file, size): (&Path, u64)) -> bool {
    // Bytes that are left to send, once the file was asked for.
    let left: Rc<Cell<Option<u64>>> = Rc::default();
    let service = service_fn(async |request: Request<Incoming>| {
        let reply = reply(&request, path, port);
        let file = (reply == Reply::File).then(|| File::open(file)).transpose()?;
        left.set(file.is_some().then_some(size));
        response(reply, Content { file, left: Rc::clone(&left) })
    });
    let mut connection = http1::Builder::new();
    let connection = connection.keep_alive(false).max_buf_size(LONGEST_HEAD);
    let mut connection = std::pin::pin!(connection.serve_connection(TokioIo::new(stream), service));
    loop {
        let before = left.get();
        match tokio::time::timeout(PATIENCE, &mut connection).await {
            Ok(ended) => return ended.is_ok() && left.get() == Some(0),
            // It says nothing, or takes nothing.
            Err(_) if left.get() == before => return false,
            Err(_) => {}
        }
    }
}

/// Whether accepting connections cannot go on. A connection that ended before it was accepted is no such
/// error.
fn is_fatal(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    !matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted | ConnectionReset)
}

fn response(reply: Reply, content: Content) -> io::Result<Response<Content>> {
    let mut response = Response::builder().status(reply.status()).header("cache-control", "no-store");
    let headers: &[(&str, &str)] = match reply {
        Reply::File => &[("content-type", "application/octet-stream")],
        // Chrome asks before a page of the internet may load from this machine.
        Reply::Preflight => &[
            ("access-control-allow-methods", "GET"),
            ("access-control-allow-headers", "*"),
            ("access-control-allow-private-network", "true"),
        ],
        Reply::NotAllowed => &[("allow", "GET, OPTIONS")],
        Reply::Forbidden | Reply::NotFound => &[],
    };
    let for_viewer = [("vary", "origin"), ("access-control-allow-origin", VIEWER)];
    let for_viewer = if reply == Reply::Forbidden { &for_viewer[..1] } else { &for_viewer };
    for (name, value) in for_viewer.iter().chain(headers) {
        response = response.header(*name, *value);
    }
    response.body(content).map_err(io::Error::other)
}

/// The file as far as it is left to send; nothing for other answers.
struct Content {
    file: Option<File>,
    left: Rc<Cell<Option<u64>>>,
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let left = self.left.get().unwrap_or(0);
        let Some(file) = self.file.as_mut().filter(|_| left > 0) else { return Poll::Ready(None) };
        let mut block = vec![0; usize::try_from(left).map_or(BLOCK, |left| left.min(BLOCK))];
        let read = file.read_exact(&mut block);
        self.left.set(Some(left - block.len() as u64));
        Poll::Ready(Some(read.map(|()| Frame::data(block.into()))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.get().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpStream;
    use std::thread;

    fn ask(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        // The server may close before it has read everything.
        let _ = stream.write_all(request.as_bytes());
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn the_viewer_gets_the_file_once_and_others_do_not_end_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seen.json.gz");
        let bytes: String = "0123456789".repeat(100_000);
        std::fs::write(&file, &bytes).unwrap();
        let server = OverlayServer::bind_to(0, &file).unwrap();
        let port = server.port;
        assert_eq!(
            server.link(),
            format!("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:{port}/trace.json.gz")
        );
        let served = thread::scope(|scope| {
            let served = scope.spawn(|| server.serve(&file, Duration::from_secs(60)));
            let host = format!("Host: 127.0.0.1:{port}\r\n");
            let origin = "Origin: https://ui.perfetto.dev\r\n\r\n";
            // It is opened and sends nothing, as browsers do.
            let silent = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            let other = ask(port, &format!("GET /trace.json.gz HTTP/1.1\r\n{host}\r\n"));
            assert!(other.starts_with("HTTP/1.1 403") && !other.contains("allow-origin"), "{other}");
            let status = ask(port, &format!("POST /status HTTP/1.1\r\n{host}{origin}"));
            assert!(status.starts_with("HTTP/1.1 404"), "{status}");
            let preflight = ask(port, &format!("OPTIONS /trace.json.gz HTTP/1.1\r\n{host}{origin}"));
            assert!(preflight.contains("access-control-allow-private-network: true"), "{preflight}");
            let long = ask(port, &format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(17 << 10)));
            assert!(long.is_empty() || long.starts_with("HTTP/1.1 4"), "{long}");
            for bad in [format!("GET /trace.json.gz SPDY\r\n{host}{origin}"), "nonsense\r\n\r\n".to_string()]
            {
                assert!(ask(port, &bad).starts_with("HTTP/1.1 400"), "{bad}");
            }
            let got = ask(port, &format!("GET /trace.json.gz HTTP/1.1\r\n{host}{origin}"));
            let (headers, body) = got.split_once("\r\n\r\n").unwrap();
            assert!(headers.contains("access-control-allow-origin: https://ui.perfetto.dev"), "{headers}");
            assert!(headers.contains("content-length: 1000000") && body == bytes, "{headers}");
            let served = served.join().unwrap();
            drop(silent);
            served
        });
        assert_eq!(served.unwrap(), Served::Whole);
    }

    #[test]
    fn it_ends_when_nobody_comes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.json");
        std::fs::write(&file, "[]").unwrap();
        let server = OverlayServer::bind_to(0, &file).unwrap();
        assert_eq!(server.serve(&file, Duration::from_millis(50)).unwrap(), Served::NobodyCame);
    }

    #[test]
    fn a_port_that_is_taken_is_an_error_by_name() {
        let first = OverlayServer::bind_to(0, Path::new("a.json")).unwrap();
        let second = OverlayServer::bind_to(first.port, Path::new("b.json")).unwrap_err();
        assert!(
            second.to_string().contains(&format!("127.0.0.1:{}: another program uses this port", first.port))
        );
        assert!(second.hint().is_some());
    }
}
