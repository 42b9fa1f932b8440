//! The output file of an overlay: compressed according to its name, written beside its place and moved there
//! when complete.

use crate::overlay::OverlayError;
use flate2::Compression;
use flate2::write::GzEncoder;
use hta_read::input::Input;
use hta_results::output::inputs::Inputs;
use hta_results::output::paths::destination;
use hta_results::output::unfinished::UnfinishedFile;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Where to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A file; `force` allows replacing an existing one.
    File { path: PathBuf, force: bool },
    /// A file of the caller's own that is there already, uncompressed.
    Scratch(PathBuf),
    /// Standard output, uncompressed.
    Stdout,
}

enum PackedWriter {
    Plain(Box<dyn Write + Send>),
    Gzip(GzEncoder<Box<dyn Write + Send>>),
    Zstd(zstd::stream::write::Encoder<'static, Box<dyn Write + Send>>),
}

pub struct OverlayOutput {
    packed: PackedWriter,
    /// The unfinished file, its final path, and whether that may be replaced.
    file: Option<(UnfinishedFile, PathBuf, bool)>,
    shown: String,
}

/// A compression level that is fast enough to keep up with the copy.
const GZIP_LEVEL: u32 = 4;
const ZSTD_LEVEL: i32 = 3;

impl OverlayOutput {
    /// Opens the output.
    ///
    /// # Errors
    /// When the path exists, is one of the traces, or cannot be written to.
    pub fn create(target: &Target, inputs: &[Input]) -> Result<Self, OverlayError> {
        let (path, force) = match target {
            Target::Stdout => {
                let out: Box<dyn Write + Send> = Box::new(BufWriter::new(io::stdout()));
                return Ok(Self {
                    packed: PackedWriter::Plain(out),
                    file: None,
                    shown: "standard output".to_string(),
                });
            }
            Target::Scratch(path) => {
                let shown = path.display().to_string();
                let opened = OpenOptions::new().write(true).truncate(true).open(path);
                let file = opened.map_err(|source| OverlayError::Write { path: shown.clone(), source })?;
                return Ok(Self { packed: PackedWriter::Plain(Box::new(buffered(file))), file: None, shown });
            }
            Target::File { path, force } => (path, *force),
        };
        let shown = path.display().to_string();
        let error = |source| OverlayError::Write { path: shown.clone(), source };
        if Inputs::of_traces(inputs).allow_file(path).is_err() {
            return Err(OverlayError::IsInput { path: shown });
        }
        // If the path is a link, keep the link and write its target.
        let path = &destination(path);
        if path.exists() {
            if path.is_dir() {
                return Err(error(io::Error::other("it is a folder")));
            }
            if !force {
                return Err(OverlayError::Exists { path: shown });
            }
        }
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = UnfinishedFile::create_in(parent, "overlay").map_err(error)?;
        let to: Box<dyn Write + Send> = Box::new(buffered(file.reopen().map_err(error)?));
        let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
        let packed = if name.ends_with(".gz") {
            PackedWriter::Gzip(GzEncoder::new(to, Compression::new(GZIP_LEVEL)))
        } else if name.ends_with(".zst") {
            PackedWriter::Zstd(zstd::stream::write::Encoder::new(to, ZSTD_LEVEL).map_err(error)?)
        } else {
            PackedWriter::Plain(to)
        };
        Ok(Self { packed, file: Some((file, path.clone(), force)), shown })
    }

    /// # Errors
    /// When the output cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.packed {
            PackedWriter::Plain(w) => w.write_all(bytes),
            PackedWriter::Gzip(w) => w.write_all(bytes),
            PackedWriter::Zstd(w) => w.write_all(bytes),
        }
    }

    /// An error that names the output.
    pub fn error(&self, source: io::Error) -> OverlayError {
        OverlayError::Write { path: self.shown.clone(), source }
    }

    /// Flushes the output and moves the file to its place.
    ///
    /// # Errors
    /// When that fails, or a file has appeared at its place in the meantime.
    pub fn finish(self) -> Result<(), OverlayError> {
        let Self { packed, file, shown } = self;
        let error = |source| OverlayError::Write { path: shown.clone(), source };
        let mut inner = match packed {
            PackedWriter::Plain(w) => w,
            PackedWriter::Gzip(w) => w.finish().map_err(error)?,
            PackedWriter::Zstd(w) => w.finish().map_err(error)?,
        };
        inner.flush().map_err(error)?;
        drop(inner);
        match file {
            None => Ok(()),
            Some((file, path, true)) => file.place(&path, true).map_err(error),
            Some((file, path, false)) => file.place(&path, false).map_err(|e| match e.kind() {
                io::ErrorKind::AlreadyExists => OverlayError::Exists { path: shown.clone() },
                _ => error(e),
            }),
        }
    }
}

fn buffered(file: File) -> BufWriter<File> {
    BufWriter::with_capacity(1 << 18, file)
}
