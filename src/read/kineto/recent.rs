//! Caches the lookups of the last few texts: consecutive events share few categories, threads and streams, so
//! most of them need no hash lookup.

/// Number of cached texts.
const KEPT: usize = 8;

struct RecentEntry<const N: usize> {
    texts: [Vec<u8>; N],
    meaning: u32,
}

/// Numbers for the last texts, where `N` texts as written in the file form one key.
pub(crate) struct LookupCache<const N: usize> {
    entries: Vec<RecentEntry<N>>,
    /// The slot of the oldest entry, which is replaced next.
    next: usize,
}

impl<const N: usize> Default for LookupCache<N> {
    fn default() -> Self {
        Self { entries: Vec::new(), next: 0 }
    }
}

impl<const N: usize> LookupCache<N> {
    #[inline]
    pub fn find(&self, texts: [&[u8]; N]) -> Option<u32> {
        self.entries.iter().find(|e| e.texts.iter().zip(texts).all(|(a, b)| a == b)).map(|e| e.meaning)
    }

    pub(crate) fn remember(&mut self, texts: [&[u8]; N], meaning: u32) {
        if self.entries.len() < KEPT {
            self.entries.push(RecentEntry { texts: std::array::from_fn(|_| Vec::new()), meaning });
        }
        if let Some(oldest) = self.entries.get_mut(self.next) {
            for (kept, text) in oldest.texts.iter_mut().zip(texts) {
                kept.clear();
                kept.extend_from_slice(text);
            }
            oldest.meaning = meaning;
        }
        self.next = (self.next + 1) % KEPT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_found_and_older_ones_forgotten() {
        let mut recent = LookupCache::default();
        assert_eq!(recent.find([b"", b""]), None);
        let text = |n: u32| n.to_string().into_bytes();
        for n in 0..2 * KEPT as u32 + 3 {
            recent.remember([b"7", &text(n)], n);
            let oldest = n.saturating_sub(KEPT as u32 - 1);
            assert!((oldest..=n).all(|k| recent.find([b"7", &text(k)]) == Some(k)));
            assert!((0..oldest).all(|k| recent.find([b"7", &text(k)]).is_none()));
        }
        assert_eq!(recent.find([b"8", &text(12)]), None);
    }
}
