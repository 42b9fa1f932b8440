//! The suffix array with the LCP of neighbours, and the common length of any two positions.

/// Entries of `lcp` per entry of the sparse table.
const BLOCK: usize = 16;

/// Number of symbols that are compared directly before the table is used.
const DIRECT: usize = 8;

/// The suffix array of a text with its inverse and its LCP array.
pub(crate) struct SuffixArrayWithLcp {
    /// Starts of the suffixes, in sorted order.
    pub(crate) suffixes: Vec<u32>,
    /// Index in `suffixes` of each position's suffix.
    pub(crate) rank: Vec<u32>,
    /// Number of symbols that a suffix shares with the previous one; 0 for the first.
    pub(crate) lcp: Vec<u32>,
    /// Row `k` has the minimum LCP of `2^k` blocks from each block on.
    least: Vec<Vec<u32>>,
}

impl SuffixArrayWithLcp {
    pub(crate) fn new(text: &[u32], suffixes: Vec<u32>) -> Self {
        let n = text.len();
        let mut rank = vec![0u32; n];
        for (r, &i) in suffixes.iter().enumerate() {
            rank[i as usize] = r as u32;
        }
        // Along the text the common length decreases by at most one per step (Karkkainen, Manzini, Puglisi).
        let mut shared = vec![u32::MAX; n];
        for pair in suffixes.windows(2) {
            shared[pair[1] as usize] = pair[0];
        }
        let mut h = 0;
        for i in 0..n {
            let before = shared[i] as usize;
            if before >= n {
                h = 0;
            } else {
                while i + h < n && before + h < n && text[i + h] == text[before + h] {
                    h += 1;
                }
            }
            shared[i] = h as u32;
            h = h.saturating_sub(1);
        }
        let lcp: Vec<u32> = suffixes.iter().map(|&i| shared[i as usize]).collect();
        let least = sparse(&lcp);
        Self { suffixes, rank, lcp, least }
    }

    pub(crate) fn len(&self) -> usize {
        self.suffixes.len()
    }

    /// The symbol before each suffix, in order of the suffixes; `None` for the whole text.
    pub(crate) fn before(&self, text: &[u32]) -> Vec<Option<u32>> {
        self.suffixes.iter().map(|&i| (i as usize).checked_sub(1).map(|b| text[b])).collect()
    }

    /// Number of equal symbols from `i` and from `j` on; `i` and `j` must differ.
    pub(crate) fn agree(&self, text: &[u32], i: usize, j: usize) -> usize {
        let most = text.len() - i.max(j);
        let direct = (0..most.min(DIRECT)).take_while(|k| text[i + k] == text[j + k]).count();
        if direct < DIRECT {
            return direct;
        }
        let (a, b) = (self.rank[i] as usize, self.rank[j] as usize);
        self.least_in(a.min(b) + 1, a.max(b) + 1) as usize
    }

    /// The minimum LCP in `[from, until)`, which must not be empty.
    fn least_in(&self, from: usize, until: usize) -> u32 {
        let plain = |a: usize, b: usize| self.lcp[a..b].iter().copied().min().unwrap_or(u32::MAX);
        let (first, last) = (from.div_ceil(BLOCK), until / BLOCK);
        if first >= last {
            return plain(from, until);
        }
        let k = (last - first).ilog2();
        let row = &self.least[k as usize];
        let blocks = row[first].min(row[last - (1 << k)]);
        blocks.min(plain(from, first * BLOCK)).min(plain(last * BLOCK, until))
    }
}

fn sparse(lcp: &[u32]) -> Vec<Vec<u32>> {
    let mut rows =
        vec![lcp.chunks_exact(BLOCK).map(|c| c.iter().copied().min().unwrap_or(0)).collect::<Vec<u32>>()];
    let mut width = 1;
    while let Some(row) = rows.last().filter(|r| r.len() > width) {
        let next = row.iter().zip(&row[width..]).map(|(a, b)| *a.min(b)).collect();
        rows.push(next);
        width *= 2;
    }
    rows
}
