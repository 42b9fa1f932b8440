//! `--open`: the file is served to the Perfetto page once, from the only port that the page loads from.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

const TRACE: &str = "data/samples/gpu_single/rank_0.json.gz";

fn start(arguments: &[&str], temporary: &std::path::Path) -> Child {
    crate::shared::interruptible()
        .args(["overlay", TRACE, "--open"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("TMPDIR", temporary)
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs")
}

/// Reads standard output up to the link.
fn link(child: &mut Child) -> String {
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let line = lines.find(|l| l.contains("https://ui.perfetto.dev/#!")).expect("a link");
    line.split(": ").nth(1).expect("a link").to_string()
}

fn get(path: &str, origin: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, 9001)).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:9001\r\nOrigin: {origin}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    answer
}

/// One test, because there is one port.
#[test]
fn the_file_is_served_once_and_a_taken_port_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    // Whoever has the port: it is taken.
    let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 9001)).ok();
    let taken = start(&[], dir.path()).wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert_eq!(taken.status.code(), Some(2), "{message}");
    assert!(
        message.contains("127.0.0.1:9001: another program uses this port") && message.contains("hint: "),
        "{message}"
    );
    assert!(held.is_some(), "another program uses port 9001: the rest of this test needs it");
    drop(held);

    let mut child = start(&["--open-wait", "120"], dir.path());
    let link = link(&mut child);
    assert_eq!(link, "https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/trace.json");
    let refused = get("/trace.json", "https://example.com");
    assert!(refused.starts_with(b"HTTP/1.1 403"), "{}", String::from_utf8_lossy(&refused));
    let answer = get("/trace.json", "https://ui.perfetto.dev");
    let at = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_slice(&answer[at + 4..]).unwrap();
    assert!(body["traceEvents"].as_array().unwrap().len() > 100);
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let waited = start(&["--open-wait", "1"], dir.path()).wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&waited.stderr).into_owned();
    assert_eq!(waited.status.code(), Some(1), "{message}");
    assert!(
        message.contains("no browser has loaded the file in 1 s") && message.contains("ssh -L 9001"),
        "{message}"
    );

    #[cfg(unix)]
    {
        let mut child = start(&["--open-wait", "120"], dir.path());
        self::link(&mut child);
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(130));
    }
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "temporary files are removed");

    let dash = start(&["-o", "-"], dir.path()).wait_with_output().unwrap();
    assert_eq!(dash.status.code(), Some(2));
}
