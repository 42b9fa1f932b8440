//! Bytes to columns, in one block and cut anywhere: both must give the same columns and counters, or the same refusal.
//!
//! The first byte is the length of the blocks.

#![no_main]

use hta::read::kineto::document::{Document, KinetoRefusal};
use hta::read::options::LoadOptions;
use hta_fuzz::Seen;
use libfuzzer_sys::fuzz_target;

/// Reads like a stream: bytes that were not consumed are passed again with the next block.
fn feed(blocks: &mut dyn Iterator<Item = &[u8]>) -> Result<Seen, KinetoRefusal> {
    let mut document = Document::new(LoadOptions { event_args: true, rest_args: true, ..LoadOptions::default() });
    let mut buf: Vec<u8> = Vec::new();
    for block in blocks {
        buf.extend_from_slice(block);
        let used = document.feed(&buf, false)?;
        assert!(used <= buf.len());
        buf.drain(..used);
    }
    document.feed_last(&buf, false)?;
    document.finish()?;
    document.reader.columns.pair_marks();
    Ok(Seen::of(&document.reader.columns.finish()))
}

fuzz_target!(|data: &[u8]| {
    let Some((first, text)) = data.split_first() else { return };
    let whole = feed(&mut std::iter::once(text));
    let cut = feed(&mut text.chunks(usize::from(*first).max(1)));
    assert_eq!(whole, cut);
});
