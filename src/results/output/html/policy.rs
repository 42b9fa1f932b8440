//! The content security policy of the page. It runs only the scripts, and uses only the style, that hta has
//! put into it: each is known by the hash of its text, so that a name of a trace could start nothing even if
//! it ended the element that it stands in.
//!
//! The modules of the page have addresses that are their own texts, and are not listed: `strict-dynamic`
//! trusts what a known script adds, and the import map, by which they find each other, is known by its hash.
//!
//! All of these texts are the same in every page, so the policy stands in `policy.txt`. This derives it:
//! `HTA_WRITE_DOCS=1 cargo test --lib --workspace policy` writes the file anew.

use crate::output::html::parts::{MODULES, PAGE, POLICY, fill};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// What the page may load and run.
fn policy() -> String {
    let scripts = [inline("script"), vec![source(import_map().as_bytes())]].concat().join(" ");
    // Plotly adds an empty style element, and rules to it by the DOM. It sets style attributes of texts and
    // pictures, as the page does of bars; with nothing to load they only change how something looks.
    let styles = [inline("style"), vec![source(b"")]].concat().join(" ");
    format!(
        "default-src 'none'; script-src 'strict-dynamic' {scripts}; style-src {styles}; style-src-attr \
         'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
}

/// A text of the page as a source of the policy.
fn source(text: &[u8]) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

/// The sources of the elements of the page with this tag and nothing else in it.
fn inline(tag: &str) -> Vec<String> {
    let (opening, end) = (format!("<{tag}>"), format!("</{tag}>"));
    let texts = PAGE.split(&opening).skip(1).filter_map(|rest| Some(rest.split_once(&end)?.0));
    texts.map(|text| source(&filled(text))).collect()
}

fn filled(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    // Nothing fails that is written to memory.
    let _ = fill(text, &mut out);
    out
}

/// The import map as the page makes it of its modules.
fn import_map() -> String {
    let mut map = String::from(r#"{"imports":{"#);
    for (i, (name, text)) in MODULES.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        map.push_str(&format!(r#"{comma}"page/{name}":"data:text/javascript,"#));
        encode(&format!("\n{text}//# sourceURL=page/{name}"), &mut map);
        map.push('"');
    }
    map + "}}"
}

/// Escapes a text as `encodeURIComponent` does.
fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')' => out.push(char::from(byte)),
            // Nothing fails that is written to memory.
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
}

#[test]
fn the_policy_is_that_of_the_page() {
    if std::env::var_os("HTA_WRITE_DOCS").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/output/html/policy.txt");
        return std::fs::write(file, policy() + "\n").unwrap();
    }
    assert_eq!(POLICY.trim_end(), policy());
}

#[test]
fn every_script_and_style_of_the_page_is_known_and_nothing_else_runs() {
    let policy = policy();
    for tag in ["script", "style"] {
        let sources = inline(tag);
        assert!(!sources.is_empty() && sources.iter().all(|s| policy.contains(s)), "{tag}: {policy}");
    }
    let unsafe_directives: Vec<&str> = policy.split("; ").filter(|of| of.contains("unsafe")).collect();
    assert_eq!(unsafe_directives, ["style-src-attr 'unsafe-inline'"], "{policy}");
    // Scripts with attributes are data, and modules as texts.
    let with_attributes = PAGE.matches("<script ").count();
    assert_eq!(with_attributes, PAGE.matches(r#"<script type="application/json""#).count());
    assert!(!PAGE.contains(" style=") && !PAGE.contains(" onclick="));
}

#[test]
fn texts_are_escaped_as_in_the_browser() {
    let mut out = String::new();
    encode("a b\n'(x)' => `é`\";", &mut out);
    assert_eq!(out, "a%20b%0A'(x)'%20%3D%3E%20%60%C3%A9%60%22%3B");
}
