//! `hta open`: shows the page of results in a browser, or says how to where there is none.

use crate::cli::browser;
use crate::cli::exit::Exit;
use crate::cli::output::print_text;
use anyhow::Context;
use clap::Args;
use hta_read::files::{Location, Stores};
use hta_results::output::contents::FolderContents;
use hta_results::output::place::RESULTS;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct OpenArgs {
    /// Results of `hta analyze` or `hta merge`: a folder, or a URL of a store
    #[arg(value_name = "RESULTS")]
    results: PathBuf,
}

pub const AFTER_HELP: &str = "\
Example:
  hta open hta-out

The page needs no server and no network. After `hta report OUT --against BASELINE` the comparison is shown.";

/// Pages of results; what compares two runs was made last and is shown first.
const PAGES: [&str; 2] = ["compare.html", "report.html"];

pub fn run(args: &OpenArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let place = Location::new(&args.results, stores);
    let is_remote = place.is_remote();
    let contents = FolderContents::of(place, &[&RESULTS])?;
    let names = contents.names();
    let page = PAGES.iter().find(|page| names.iter().any(|name| name == *page));
    let Some(page) = page else {
        anyhow::bail!(
            "cannot open {}: it has no report.html\nhint: hta report {} writes it",
            args.results.display(),
            args.results.display()
        );
    };
    let file = if is_remote {
        let file = std::env::temp_dir().join(format!("hta-{}-{page}", std::process::id()));
        contents.copy(page, &file)?;
        file
    } else {
        std::path::absolute(contents.file(page)?).context("cannot find the current folder")?
    };
    let text = if browser::open(&link(&file)) {
        format!("opened {}\n", file.display())
    } else {
        format!(
            "no browser can be started here; copy the page to a machine that has one:\n  {}\n",
            file.display()
        )
    };
    print_text(&text)?;
    Ok(Exit::Done)
}

/// A link to a file, with what a URL cannot hold escaped. The bytes of its path are kept as they are, whether
/// they are text or not.
fn link(file: &Path) -> String {
    let mut out = String::from("file://");
    for byte in path_bytes(file) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' | b':' => {
                out.push(byte as char);
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(unix)]
fn path_bytes(file: &Path) -> Vec<u8> {
    std::os::unix::ffi::OsStrExt::as_bytes(file.as_os_str()).to_vec()
}

/// Paths of Windows begin with a drive, and are separated by backslashes.
#[cfg(not(unix))]
fn path_bytes(file: &Path) -> Vec<u8> {
    format!("/{}", file.to_string_lossy().replace('\\', "/")).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::link;
    use std::path::Path;

    #[test]
    fn links_escape_what_a_url_cannot_hold() {
        assert_eq!(link(Path::new("/tmp/a b/100%.html")), "file:///tmp/a%20b/100%25.html");
    }

    #[cfg(unix)]
    #[test]
    fn links_keep_backslashes_and_bytes_that_are_no_text() {
        let odd = std::os::unix::ffi::OsStrExt::from_bytes(&b"/tmp/a\\b\xff.html"[..]);
        assert_eq!(link(Path::new::<std::ffi::OsStr>(odd)), "file:///tmp/a%5Cb%FF.html");
    }
}
