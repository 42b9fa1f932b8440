//! Suffix array by induced sorting (SA-IS), linear in the text and the alphabet.
//!
//! A suffix is of type S if it is smaller than the next one, else of type L; a leftmost S starts a piece. The
//! pieces are sorted by inducing and named, the shorter text of names is sorted recursively, and its order
//! induces that of all suffixes. The depth of recursion is at most log2 of the length.

/// Starts of the suffixes of `text` in lexicographical order; a suffix precedes the longer ones that begin
/// with it.
pub(crate) fn suffix_array(text: &[u32]) -> Vec<u32> {
    let dense = dense(text);
    let largest = dense.iter().copied().max().unwrap_or(0);
    induced(&dense, largest as usize)
}

/// Renumbers the symbols from 0 without gaps, in the same order.
fn dense(text: &[u32]) -> Vec<u32> {
    let mut symbols: Vec<u32> = text.to_vec();
    symbols.sort_unstable();
    symbols.dedup();
    match symbols.last() {
        Some(&last) if last as usize + 1 != symbols.len() => {
            text.iter().map(|s| symbols.partition_point(|x| x < s) as u32).collect()
        }
        _ => text.to_vec(),
    }
}

/// A symbol with the type of its suffix in the lowest bit, because both are needed together.
type Typed = u32;

fn is_small(typed: Typed) -> bool {
    typed & 1 == 1
}

fn symbol(typed: Typed) -> usize {
    typed as usize >> 1
}

/// Where the L and S suffixes of each symbol begin in the array.
struct Buckets {
    large: Vec<u32>,
    small: Vec<u32>,
}

impl Buckets {
    fn new(text: &[Typed], largest: usize) -> Self {
        let (mut large, mut small) = (vec![0u32; largest + 2], vec![0u32; largest + 1]);
        for &t in text {
            match is_small(t) {
                false => small[symbol(t)] += 1,
                true => large[symbol(t) + 1] += 1,
            }
        }
        for i in 0..=largest {
            small[i] += large[i];
            large[i + 1] += small[i];
        }
        Self { large, small }
    }
}

/// `largest`: the largest symbol.
fn induced(text: &[u32], largest: usize) -> Vec<u32> {
    let n = text.len();
    match n {
        0 => return Vec::new(),
        1 => return vec![0],
        _ => {}
    }
    let mut typed: Vec<Typed> = text.iter().map(|s| s << 1).collect();
    for i in (0..n - 1).rev() {
        let small = if text[i] == text[i + 1] { is_small(typed[i + 1]) } else { text[i] < text[i + 1] };
        typed[i] |= u32::from(small);
    }
    let buckets = Buckets::new(&typed, largest);
    let starts: Vec<u32> = (1..n).filter(|&i| starts_piece(&typed, i)).map(|i| i as u32).collect();
    let mut order = vec![0u32; n];
    induce(&typed, &buckets, &starts, &mut order);
    if !starts.is_empty() {
        let sorted = sort_pieces(text, &typed, &starts, &order);
        induce(&typed, &buckets, &sorted, &mut order);
    }
    order.iter_mut().for_each(|v| *v -= 1);
    order
}

fn starts_piece(text: &[Typed], i: usize) -> bool {
    i > 0 && is_small(text[i]) && !is_small(text[i - 1])
}

/// Sorts all suffixes, given the order of the leftmost S ones. Entries of `order` are index + 1; 0 means
/// empty.
fn induce(text: &[Typed], buckets: &Buckets, starts: &[u32], order: &mut [u32]) {
    let n = text.len();
    order.fill(0);
    let mut next = buckets.small.clone();
    for &i in starts {
        let slot = &mut next[symbol(text[i as usize])];
        order[*slot as usize] = i + 1;
        *slot += 1;
    }
    let mut next = buckets.large.clone();
    let slot = &mut next[symbol(text[n - 1])];
    order[*slot as usize] = n as u32;
    *slot += 1;
    for at in 0..n {
        let v = order[at] as usize;
        if v >= 2 && !is_small(text[v - 2]) {
            let slot = &mut next[symbol(text[v - 2])];
            order[*slot as usize] = v as u32 - 1;
            *slot += 1;
        }
    }
    next.copy_from_slice(&buckets.large);
    for at in (0..n).rev() {
        let v = order[at] as usize;
        if v >= 2 && is_small(text[v - 2]) {
            let slot = &mut next[symbol(text[v - 2]) + 1];
            *slot -= 1;
            order[*slot as usize] = v as u32 - 1;
        }
    }
}

/// The leftmost S suffixes in order, given an array that contains their pieces in order.
fn sort_pieces(text: &[u32], typed: &[Typed], starts: &[u32], order: &[u32]) -> Vec<u32> {
    let n = text.len();
    let mut sorted: Vec<u32> =
        order.iter().map(|v| v - 1).filter(|&i| starts_piece(typed, i as usize)).collect();
    // Starts are never adjacent, so half as many numbers as positions suffice.
    let mut number = vec![0u32; n / 2 + 1];
    for (k, &i) in starts.iter().enumerate() {
        number[i as usize / 2] = k as u32;
    }
    let end = |i: usize| starts.get(number[i / 2] as usize + 1).map_or(n, |&e| e as usize);
    let mut names = vec![0u32; starts.len()];
    let mut name = 0;
    for pair in 1..sorted.len() {
        let (a, b) = (sorted[pair - 1] as usize, sorted[pair] as usize);
        let (end_a, end_b) = (end(a), end(b));
        // A piece ends with the symbol that starts the next one; the last piece differs from all others.
        let same = end_a < n && end_b < n && text[a..=end_a] == text[b..=end_b];
        name += u32::from(!same);
        names[number[b / 2] as usize] = name;
    }
    let by_name = induced(&names, name as usize);
    for (slot, k) in sorted.iter_mut().zip(by_name) {
        *slot = starts[k as usize];
    }
    sorted
}
