//! Opens a link in the user's browser, where there is one.

use std::process::{Command, Stdio};

/// Opens a link; `false` if no browser can be started here, e.g. on a machine without a screen.
pub fn open(link: &str) -> bool {
    let Some(mut command) = opener() else { return false };
    let started = command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    match started {
        Ok(mut child) => {
            // Some openers run as long as the browser does.
            std::thread::spawn(move || child.wait());
            true
        }
        Err(_) => false,
    }
}

#[cfg(target_os = "macos")]
fn opener() -> Option<Command> {
    Some(Command::new("open"))
}

#[cfg(windows)]
fn opener() -> Option<Command> {
    let mut command = Command::new("rundll32");
    command.arg("url.dll,FileProtocolHandler");
    Some(command)
}

/// Without a screen `xdg-open` would start a browser in the terminal.
#[cfg(all(unix, not(target_os = "macos")))]
fn opener() -> Option<Command> {
    let has_screen =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|v| std::env::var_os(v).is_some_and(|v| !v.is_empty()));
    has_screen.then(|| Command::new("xdg-open"))
}
