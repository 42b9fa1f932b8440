//! The memory limit: the user's value, or most of the memory that is available to this process.

use hta_base::process::number_after;
use hta_base::units::fmt_bytes;
use hta_base::wording::counts::plural;
use hta_read::room::MemoryLimit;
use std::fs;
use std::path::{Path, PathBuf};

/// Default limit, percent of the available memory. The rest is for what the estimate does not cover:
/// temporary data of analyses, the allocator, and other programs.
pub const SHARE_PERCENT: u64 = 80;

/// Units of sizes; units that end in another one come first.
const UNITS: [(&str, u64); 12] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
];

/// Parses sizes such as `4GB`, `512MiB`, `1.5G` or plain bytes. K, M, G and T are powers of 1000, with `iB`
/// powers of 1024.
pub fn parse(text: &str) -> Result<u64, String> {
    let bad = || format!("expected a size such as 4GB, 512MiB or 1.5G, found `{text}`");
    let lower = text.trim().to_ascii_lowercase();
    let (digits, unit) = match UNITS.iter().find(|(u, _)| lower.ends_with(u)) {
        Some((u, bytes)) => (lower.trim_end_matches(u), *bytes),
        None => (lower.trim_end_matches('b'), 1),
    };
    let (whole, fraction) = digits.trim_end().split_once('.').unwrap_or((digits.trim_end(), ""));
    let is_number = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 9 || !is_number(whole) || !is_number(fraction) {
        return Err(bad());
    }
    let whole: u128 = whole.parse().map_err(|_| bad())?;
    let scale = 10u128.pow(fraction.len() as u32);
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| bad())? };
    let bytes = whole.checked_mul(u128::from(unit)).ok_or_else(bad)? + fraction * u128::from(unit) / scale;
    u64::try_from(bytes).map_err(|_| bad())
}

/// The limit to use: `given`, or a share of the available memory. `None` if that is unknown.
pub fn limit(given: Option<u64>) -> Option<MemoryLimit> {
    match given {
        Some(bytes) => Some(MemoryLimit { bytes, given: true }),
        None => spare(Path::new("/"))
            .map(|bytes| MemoryLimit { bytes: bytes / 100 * SHARE_PERCENT, given: false }),
    }
}

/// Of the address space that is left, half can be filled: threads set some aside for their own allocations,
/// and what grows is copied, so that for a moment it is there twice. A process that is refused address space
/// ends at once.
const HALF: u64 = 2;

/// Address space that a command on data needs beside the program, and for each thread, bytes. With less the
/// allocator, which cannot fail in words, ends the process while the threads are set up.
const LEAST_SPACE: u64 = 96 << 20;
const THREAD_SPACE: u64 = 4 << 20;

/// Checks that the limits of a shell leave enough to begin on so many threads.
///
/// # Errors
/// When they do not.
pub fn check_space(threads: usize) -> anyhow::Result<()> {
    let least = LEAST_SPACE + THREAD_SPACE * threads as u64;
    match space_left(Path::new("/")).filter(|left| *left < least) {
        None => Ok(()),
        Some(left) => anyhow::bail!(
            "cannot start {}: expected {} of address space (`ulimit -v`, `ulimit -d`) beside the program, \
             found {}\nhint: raise the limit, or use fewer --threads",
            plural(threads, "thread"),
            fmt_bytes(least),
            fmt_bytes(left)
        ),
    }
}

/// Available memory, bytes: the minimum over the machine, each control group above this process, and the
/// limits that a shell sets for it (`ulimit -v`, `ulimit -d`).
fn spare(root: &Path) -> Option<u64> {
    let machine = available(&fs::read_to_string(root.join("proc/meminfo")).ok()?);
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let own = groups.lines().find_map(|l| l.strip_prefix("0::")).unwrap_or("/");
    let mount = root.join("sys/fs/cgroup");
    let mut folder: PathBuf = mount.join(own.trim_start_matches('/'));
    let mut least = machine;
    while folder.starts_with(&mount) {
        let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        // `max` does not parse: the group has no limit.
        if let (Some(max), Some(now)) = (number("memory.max"), number("memory.current")) {
            // The page cache is reclaimed when memory is short, so it does not count as used.
            let cached = fs::read_to_string(folder.join("memory.stat"))
                .ok()
                .and_then(|t| number_after(&t, "inactive_file "));
            let left = max.saturating_sub(now.saturating_sub(cached.unwrap_or(0)));
            least = Some(least.map_or(left, |l| l.min(left)));
        }
        if !folder.pop() {
            break;
        }
    }
    let left = space_left(root).map(|left| left / HALF);
    least.into_iter().chain(left).min()
}

/// What the limits of a shell leave of the address space and of the data of this process, bytes; `None`
/// without such limits.
fn space_left(root: &Path) -> Option<u64> {
    let limits = fs::read_to_string(root.join("proc/self/limits")).unwrap_or_default();
    let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    let mut least: Option<u64> = None;
    for (limit, taken) in [("Max address space", "VmSize:"), ("Max data size", "VmData:")] {
        // The first number is the limit that counts; `unlimited` does not parse.
        let most = limits
            .lines()
            .find_map(|l| l.strip_prefix(limit)?.split_whitespace().next()?.parse::<u64>().ok());
        if let (Some(most), Some(taken)) = (most, number_after(&status, taken)) {
            let left = most.saturating_sub(taken << 10);
            least = Some(least.map_or(left, |l| l.min(left)));
        }
    }
    least
}

fn available(meminfo: &str) -> Option<u64> {
    number_after(meminfo, "MemAvailable:").map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(parse("512MiB"), Ok(512 << 20));
        assert_eq!(parse("4GB"), Ok(4_000_000_000));
        assert_eq!(parse("2g"), Ok(2_000_000_000));
        assert_eq!(parse("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse("1000"), Ok(1000));
        assert_eq!(parse("1000B"), Ok(1000));
        for bad in ["", "GB", "-1G", "1e9", "1..5G", "4 potatoes", "99999999999999999999T", "1.0000000001G"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_tightest_control_group_above_the_process_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n");
        assert_eq!(spare(root.path()), Some(8000 << 10));
        write("proc/self/cgroup", "1:name=x:/\n0::/job/step\n");
        write("sys/fs/cgroup/job/step/memory.max", "max\n");
        write("sys/fs/cgroup/job/step/memory.current", "100\n");
        assert_eq!(spare(root.path()), Some(8000 << 10));
        write("sys/fs/cgroup/job/memory.max", "5000000\n");
        write("sys/fs/cgroup/job/memory.current", "3000000\n");
        write("sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 1000000\n");
        assert_eq!(spare(root.path()), Some(3_000_000));
    }

    #[test]
    fn the_limits_of_a_shell_count() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("proc/self");
        fs::create_dir_all(&own).unwrap();
        let write = |space: &str, data: &str| {
            let head = "Limit                     Soft Limit           Hard Limit           Units     \n";
            let space = format!("Max address space         {space:<20} unlimited            bytes     \n");
            let data = format!("Max data size             {data:<20} unlimited            bytes     \n");
            fs::write(own.join("limits"), head.to_string() + &data + &space).unwrap();
        };
        fs::write(root.path().join("proc/meminfo"), "MemAvailable:    800000000 kB\n").unwrap();
        fs::write(own.join("status"), "VmSize:\t 1000 kB\nVmData:\t 500 kB\n").unwrap();
        write("unlimited", "unlimited");
        assert_eq!(spare(root.path()), Some(800_000_000 << 10));
        write(&(3000 << 10).to_string(), "unlimited");
        assert_eq!(spare(root.path()), Some(1000 << 10));
        write(&(30_000 << 10).to_string(), &(4 << 20).to_string());
        assert_eq!(spare(root.path()), Some(((4 << 20) - (500 << 10)) / 2));
    }

    #[test]
    fn a_machine_that_does_not_tell_gives_no_limit() {
        assert_eq!(spare(tempfile::tempdir().unwrap().path()), None);
    }
}
