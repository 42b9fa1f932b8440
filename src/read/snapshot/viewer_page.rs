//! A snapshot inside a page of PyTorch's viewer, which `torch.cuda._memory_viz.trace_plot` writes: the pickle
//! as base64 text in a script.

use crate::source::{Source, SourceError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What precedes the base64 text, and the byte behind it.
const MARK: &[u8] = b"\"base64\": \"";
const END: u8 = b'"';

/// Number of bytes of the page that are read at a time.
const BLOCK: usize = 64 << 10;

/// Where the base64 text begins, if a file that begins with these bytes is such a page.
pub(crate) fn text_start(head: &[u8]) -> Option<usize> {
    let is_page = head.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'<');
    let at = head.windows(MARK.len()).position(|w| w == MARK).filter(|_| is_page)?;
    Some(at + MARK.len())
}

/// The pickle in such a page.
pub(crate) struct ViewerPage {
    page: Box<dyn Source>,
    /// Base64 text that is not decoded yet.
    text: Vec<u8>,
    /// Whether the text is complete.
    is_ended: bool,
    bytes: Vec<u8>,
    /// Next of `bytes`.
    at: usize,
}

impl ViewerPage {
    /// `text` is what was read behind [`text_start`]; `page` gives the rest.
    pub(crate) fn new(page: Box<dyn Source>, text: Vec<u8>) -> Self {
        Self { page, text, is_ended: false, bytes: Vec::new(), at: 0 }
    }

    /// Decodes what is there; nothing at the end.
    fn decode(&mut self) -> Result<(), SourceError> {
        let cut = |reason: &str, damaged| SourceError::Cut { reason: reason.to_string(), damaged };
        (self.at, self.bytes) = (0, Vec::new());
        loop {
            if let Some(end) = self.text.iter().position(|b| *b == END).filter(|_| !self.is_ended) {
                self.text.truncate(end);
                self.is_ended = true;
            }
            // Four characters are three bytes.
            let whole = self.text.len() / 4 * 4;
            if whole > 0 {
                let decoded = STANDARD.decode(self.text.get(..whole).unwrap_or_default());
                self.bytes =
                    decoded.map_err(|_| cut("the snapshot in the page is not valid base64", true))?;
                self.text.drain(..whole);
                return Ok(());
            }
            if self.is_ended {
                return if self.text.is_empty() {
                    Ok(())
                } else {
                    Err(cut("the base64 text is incomplete", true))
                };
            }
            let mut block = vec![0; BLOCK];
            match self.page.read(&mut block)? {
                0 => return Err(cut("the page ends within the snapshot", false)),
                n => self.text.extend_from_slice(block.get(..n).unwrap_or_default()),
            }
        }
    }
}

impl Source for ViewerPage {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, SourceError> {
        if self.at == self.bytes.len() {
            self.decode()?;
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let n = rest.len().min(out.len());
        for (to, from) in out.iter_mut().zip(rest) {
            *to = *from;
        }
        self.at += n;
        Ok(n)
    }
}
