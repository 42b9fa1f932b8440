//! Serves one file on this machine to the Perfetto page, which opens what a link names, and ends when it has it.
//!
//! The page may load from port 9001 of this machine only (its content security policy), so there is no other choice of
//! port. Browsers open connections before they need them and send nothing on them, so each has its own thread.

use crate::overlay::request::{Reply, VIEWER, reply};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The port from which the Perfetto page loads.
pub const PORT: u16 = 9001;

/// Longest head of a request that is read, bytes.
const LONGEST_HEAD: usize = 16 << 10;
/// Most connections that are open at a time; others wait.
const MOST_OPEN: usize = 16;
/// Time that a client has for its request, and for taking each block of the file.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between looking for new connections.
const PAUSE: Duration = Duration::from_millis(20);
/// Pause between looking whether a client that says nothing is still worth waiting for.
const GLANCE: Duration = Duration::from_millis(100);

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
                "Perfetto opens links to this port only: end the other program (a trace_processor, or another --open), \
                 or write the file with -o and open it in the page by hand",
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
pub struct Server {
    listener: TcpListener,
    port: u16,
    /// Path in the link; its ending says how the file is compressed.
    path: String,
}

impl Server {
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
        let read = |error| ServeError::Read { path: file.display().to_string(), error };
        let size = File::open(file).and_then(|f| f.metadata()).map_err(read)?.len();
        let (open, done) = (AtomicUsize::new(0), AtomicBool::new(false));
        let until = Instant::now() + wait;
        thread::scope(|scope| {
            while !done.load(Ordering::SeqCst) && Instant::now() < until {
                let free = open.load(Ordering::SeqCst) < MOST_OPEN;
                match free.then(|| self.listener.accept()) {
                    Some(Ok((stream, _))) => {
                        open.fetch_add(1, Ordering::SeqCst);
                        let (server, open, done) = (&self, &open, &done);
                        scope.spawn(move || {
                            // A client that goes away is its own loss: the file is there for the next one.
                            if server.answer(stream, file, size, done).is_ok_and(|sent| sent) {
                                done.store(true, Ordering::SeqCst);
                            }
                            open.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                    Some(Err(e)) if is_fatal(&e) => {
                        return Err(ServeError::Listen { port: self.port, error: e });
                    }
                    _ => thread::sleep(PAUSE),
                }
            }
            Ok(())
        })?;
        Ok(if done.into_inner() { Served::Whole } else { Served::NobodyCame })
    }

    /// Answers one connection. Returns whether the whole file was sent.
    fn answer(&self, mut stream: TcpStream, file: &Path, size: u64, done: &AtomicBool) -> io::Result<bool> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(GLANCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let reply = head(&mut stream, done)?.map_or(Reply::Bad, |head| reply(&head, &self.path, self.port));
        stream.write_all(headers(reply, size).as_bytes())?;
        if reply != Reply::File {
            return Ok(false);
        }
        let sent = io::copy(&mut File::open(file)?.take(size), &mut stream)?;
        // The client closes its side when it has read everything; until then the process should not end.
        stream.shutdown(Shutdown::Write)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let _ = io::copy(&mut stream.take(LONGEST_HEAD as u64), &mut io::sink());
        Ok(sent == size)
    }
}

/// Whether accepting connections cannot go on. A connection that ended before it was accepted is no such error.
fn is_fatal(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    !matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted | ConnectionReset)
}

/// The head of an answer; `size` is that of the file.
fn headers(reply: Reply, size: u64) -> String {
    let status = reply.status();
    let mut out = format!("HTTP/1.1 {status}\r\nConnection: close\r\nCache-Control: no-store\r\nVary: Origin\r\n");
    if !matches!(reply, Reply::Bad | Reply::Forbidden) {
        out.push_str(&format!("Access-Control-Allow-Origin: {VIEWER}\r\n"));
    }
    match reply {
        Reply::File => {
            out.push_str(&format!("Content-Type: application/octet-stream\r\nContent-Length: {size}\r\n"));
        }
        // Chrome asks before a page of the internet may load from this machine.
        Reply::Preflight => out.push_str(
            "Access-Control-Allow-Methods: GET\r\nAccess-Control-Allow-Headers: *\r\n\
             Access-Control-Allow-Private-Network: true\r\n",
        ),
        Reply::NotAllowed => out.push_str("Allow: GET, OPTIONS\r\nContent-Length: 0\r\n"),
        Reply::Bad | Reply::Forbidden | Reply::NotFound => out.push_str("Content-Length: 0\r\n"),
    }
    out + "\r\n"
}

/// The head of a request; `None` if it is too long, cut, or no text, or does not come before `done`.
fn head(stream: &mut TcpStream, done: &AtomicBool) -> io::Result<Option<String>> {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    let until = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut block = [0; 2048];
    while !bytes.windows(4).any(|w| w == b"\r\n\r\n") {
        match stream.read(&mut block) {
            Ok(0) => return Ok(None),
            Ok(length) => bytes.extend_from_slice(block.get(..length).unwrap_or_default()),
            Err(e) if matches!(e.kind(), WouldBlock | TimedOut | Interrupted) => {}
            Err(e) => return Err(e),
        }
        if bytes.len() > LONGEST_HEAD || Instant::now() > until || done.load(Ordering::SeqCst) {
            return Ok(None);
        }
    }
    Ok(String::from_utf8(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let server = Server::bind_to(0, &file).unwrap();
        let port = server.port;
        assert_eq!(server.link(), format!("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:{port}/trace.json.gz"));
        let served = thread::scope(|scope| {
            let served = scope.spawn(|| server.serve(&file, Duration::from_secs(60)));
            let host = format!("Host: 127.0.0.1:{port}\r\n");
            let origin = "Origin: https://ui.perfetto.dev\r\n\r\n";
            // It is opened and sends nothing, as browsers do.
            let silent = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            let other = ask(port, &format!("GET /trace.json.gz HTTP/1.1\r\n{host}\r\n"));
            assert!(other.starts_with("HTTP/1.1 403") && !other.contains("Allow-Origin"), "{other}");
            let status = ask(port, &format!("POST /status HTTP/1.1\r\n{host}{origin}"));
            assert!(status.starts_with("HTTP/1.1 404"), "{status}");
            let preflight = ask(port, &format!("OPTIONS /trace.json.gz HTTP/1.1\r\n{host}{origin}"));
            assert!(preflight.contains("Access-Control-Allow-Private-Network: true"), "{preflight}");
            let long = ask(port, &format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(17 << 10)));
            assert!(long.is_empty() || long.starts_with("HTTP/1.1 400"), "{long}");
            let got = ask(port, &format!("GET /trace.json.gz HTTP/1.1\r\n{host}{origin}"));
            let (headers, body) = got.split_once("\r\n\r\n").unwrap();
            assert!(headers.contains("Access-Control-Allow-Origin: https://ui.perfetto.dev"), "{headers}");
            assert!(headers.contains("Content-Length: 1000000") && body == bytes, "{headers}");
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
        let server = Server::bind_to(0, &file).unwrap();
        assert_eq!(server.serve(&file, Duration::from_millis(50)).unwrap(), Served::NobodyCame);
    }

    #[test]
    fn a_port_that_is_taken_is_an_error_by_name() {
        let first = Server::bind_to(0, Path::new("a.json")).unwrap();
        let second = Server::bind_to(first.port, Path::new("b.json")).unwrap_err();
        assert!(second.to_string().contains(&format!("127.0.0.1:{}: another program uses this port", first.port)));
        assert!(second.hint().is_some());
    }
}
