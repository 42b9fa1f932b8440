//! `hta mcp`: a client that speaks JSON-RPC with the program's standard input and output, line by line.

mod answers;
mod hostile;
mod questions;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Longest wait for a message. Machines that run all tests at once are slow.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next: u64,
    /// Answers to requests that were not waited for.
    kept: BTreeMap<u64, Value>,
}

impl Client {
    /// Starts the server and greets it.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(arguments, &std::env::temp_dir())
    }

    /// The same, with a folder for temporary files.
    pub fn start_in(arguments: &[&str], temporary: &Path) -> Self {
        Self::greeted(&mut Self::command(arguments, temporary))
    }

    /// Starts the server by a command, and greets it.
    pub fn greeted(command: &mut Command) -> Self {
        let mut client = Self::spawn(command);
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = client.request("initialize", hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "hta", "{answer}");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        client
    }

    /// Starts the server and says nothing.
    pub fn silent(arguments: &[&str]) -> Self {
        Self::spawn(&mut Self::command(arguments, &std::env::temp_dir()))
    }

    fn command(arguments: &[&str], temporary: &Path) -> Command {
        let mut command = crate::shared::interruptible();
        command.arg("mcp").args(arguments).current_dir(ROOT);
        command.env("HTA_TEST_SECRET", "correct-horse-battery").env("TMPDIR", temporary);
        command
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let (to, lines) = channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
        Self { stdin: child.stdin.take(), child, lines, next: 0, kept: BTreeMap::new() }
    }

    pub fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("it is open");
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).expect("the server reads");
    }

    /// Sends a request and returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// The answer to a request. Every line of the server must be a message.
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(answer) = self.kept.remove(&id) {
                return answer;
            }
            let line = self.lines.recv_timeout(PATIENCE).expect("the server answers");
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
            assert_eq!(message["jsonrpc"], "2.0", "{line}");
            if let Some(id) = message["id"].as_u64() {
                self.kept.insert(id, message);
            }
        }
    }

    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Asks for a tool's answer.
    pub fn ask_tool(&mut self, tool: &str, arguments: Value) -> u64 {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The result of a tool: content, structured content, and whether it is an error.
    pub fn tool(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.ask_tool(tool, arguments);
        let answer = self.answer(id);
        answer.get("result").unwrap_or_else(|| panic!("{tool}: {answer}")).clone()
    }

    /// The answer of a tool that has one.
    pub fn answered(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.tool(tool, arguments.clone());
        let content = &result["structuredContent"];
        assert_eq!(content["status"], "answered", "{tool} {arguments}: {result}");
        assert_eq!(result["isError"], false);
        content["answer"].clone()
    }

    /// Rows of a statement.
    pub fn rows(&mut self, source: &str, sql: &str) -> Vec<Vec<Value>> {
        let arguments = json!({"source": source, "statement": sql, "max_bytes": 100_000, "limit": 1000});
        let answer = self.answered("sql", arguments);
        serde_json::from_value(answer["rows"].clone()).expect("rows of values")
    }

    /// Closes standard input and returns the exit code.
    pub fn close(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().expect("it ends").code()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has ended, and returns its exit code and messages.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let mut messages = String::new();
        let stderr = self.child.stderr.take().expect("a pipe");
        std::io::Read::read_to_string(&mut BufReader::new(stderr), &mut messages).expect("text");
        (self.child.wait().expect("it ends").code(), messages)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and reason of a result without an answer.
pub fn why(result: &Value) -> (String, String) {
    let content = &result["structuredContent"];
    let text = |key: &str| content[key].as_str().unwrap_or_default().to_string();
    (text("status"), text("reason"))
}

/// Results of a sample in a folder, without events unless wanted.
pub fn results(sample: &str, folder: &Path) -> String {
    let out = folder.join(sample).display().to_string();
    let run = Command::new(env!("CARGO_BIN_EXE_hta"))
        .args(["analyze", &format!("data/samples/{sample}"), "--no-html", "--out", &out])
        .current_dir(ROOT)
        .output()
        .expect("the binary runs");
    // 1: something in the input could not be used, which is true of one recording
    assert!(matches!(run.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&run.stderr));
    out
}
