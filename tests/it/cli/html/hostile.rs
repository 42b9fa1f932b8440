//! Names that contain markup, scripts or paths.

use super::{analyze, shown};
use hta_testkit::{Format, TraceBuilder, us};

const NAMES: [&str; 9] = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a & b &lt;not a tag&gt; &amp;amp;",
    "\"quotes\" and 'quotes' and `ticks`",
    "back\\slash \\u003c \\n",
    "line\u{2028}separator\u{2029}s",
    "<!-- --> ]]> <![CDATA[",
    "javascript:alert(1).py(1): f",
    "{{data}} %{x} ${y} <b>bold</b>",
];

/// A trace with these names on kernels, operators, annotations and frames.
pub fn trace() -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).world(1).device("NVIDIA <H100> & \"co\"", 132).host("<host>");
    let mut main = t.thread(1);
    for (i, name) in NAMES.iter().enumerate() {
        let at = 1000 * i as i64;
        main.frame(name, us(at)..us(at + 600));
        main.annotation(name, us(at + 10)..us(at + 590));
        main.op(name, us(at + 20)..us(at + 60));
        main.launch(us(at + 30)..us(at + 40)).kernel(name, 7, us(at + 50)..us(at + 500));
    }
    t
}

#[test]
fn no_name_breaks_out_of_the_data_and_every_name_is_whole_in_it() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let input = dir.path().join("rank_0.json");
    std::fs::write(&input, trace().to_bytes(&Format::default())).expect("a file can be written");
    let page = analyze(shown(&input), &dir.path().join("out"), &[]);
    page.assert_scripts_are_ours();
    for part in ["<img", "onerror=alert(1)>", "alert(1)</", "\u{2028}", "<H100>"] {
        assert!(!page.html.contains(part), "`{part}` stands in the page as it is");
    }
    let kernels = page.texts("kernels", "kernels", "name");
    let operators = page.texts("ops", "operators", "name");
    for name in NAMES {
        assert!(kernels.iter().any(|k| k == name), "`{name}` in {kernels:?}");
        assert!(operators.iter().any(|o| o == name), "`{name}` in {operators:?}");
    }
    assert_eq!(page.data["set"]["devices"][0], "NVIDIA <H100> & \"co\"");
}

#[test]
fn a_name_of_many_thousand_characters_is_cut_and_counted() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let input = dir.path().join("rank_0.json");
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let long = format!("{}é<{}>", "x".repeat(599), "<".repeat(20_000));
    t.thread(1).launch(us(0)..us(5)).kernel(&long, 7, us(10)..us(40));
    std::fs::write(&input, t.to_bytes(&Format::default())).expect("a file can be written");
    let page = analyze(shown(&input), &dir.path().join("out"), &[]);
    let name = &page.texts("kernels", "kernels", "name")[0];
    assert!(name.starts_with("xxx") && name.ends_with('…') && name.len() < 700, "{name}");
    assert!(page.data["cut_texts"].as_i64().is_some_and(|n| n >= 1));
}
