//! Stop sequences, found however the text is cut into pieces.

/// Looks for all sequences at once, byte by byte, and keeps back what may be the
/// beginning of one.
#[derive(Debug)]
pub(super) struct Stops {
    sequences: Vec<Sequence>,
    /// The end of the text so far, as long as it may belong to a sequence.
    held: String,
}

/// One sequence and how much of it the text ends with (Knuth, Morris and Pratt).
#[derive(Debug)]
struct Sequence {
    /// Its place among those of the client.
    place: usize,
    bytes: Box<[u8]>,
    /// For each length that can match: the next shorter one.
    shorter: Box<[usize]>,
    matched: usize,
}

/// What became of a piece of text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stopped {
    /// What the client may see now.
    pub(super) give: String,
    /// The sequence that was found, right behind that.
    pub(super) hit: Option<usize>,
}

impl Stops {
    /// `None` if there is nothing to look for.
    pub(super) fn new(stop: &[String]) -> Option<Self> {
        let sequences: Vec<_> = stop
            .iter()
            .enumerate()
            .filter(|(_, text)| !text.is_empty())
            .map(|(place, text)| Sequence::new(place, text.as_bytes()))
            .collect();
        (!sequences.is_empty()).then(|| Self { sequences, held: String::new() })
    }

    /// The sequence that is complete first ends the text; of two that are complete at the
    /// same place, the longer one.
    pub(super) fn push(&mut self, piece: String) -> Stopped {
        let before = self.held.len();
        for (at, byte) in piece.bytes().enumerate() {
            if let Some((place, len)) = self.step(byte) {
                let mut give = self.join(piece);
                give.truncate((before + at + 1).saturating_sub(len));
                return Stopped { give, hit: Some(place) };
            }
        }
        let keep = self.sequences.iter().map(|sequence| sequence.matched).max().unwrap_or(0);
        let mut give = self.join(piece);
        if keep > 0 {
            // A sequence begins with a whole character, so this is the border of one.
            self.held = give.split_off(give.len().saturating_sub(keep));
        }
        Stopped { give, hit: None }
    }

    /// No more text follows, so what was held back is not a stop sequence.
    pub(super) fn release(&mut self) -> String {
        for sequence in &mut self.sequences {
            sequence.matched = 0;
        }
        std::mem::take(&mut self.held)
    }

    fn join(&mut self, piece: String) -> String {
        if self.held.is_empty() {
            return piece;
        }
        let mut all = std::mem::take(&mut self.held);
        all.push_str(&piece);
        all
    }

    /// The place and the length of what this byte completes.
    fn step(&mut self, byte: u8) -> Option<(usize, usize)> {
        let mut hit: Option<(usize, usize)> = None;
        for sequence in &mut self.sequences {
            sequence.step(byte);
            let len = sequence.bytes.len();
            if sequence.matched == len && hit.is_none_or(|(_, longest)| len > longest) {
                hit = Some((sequence.place, len));
            }
        }
        hit
    }
}

impl Sequence {
    fn new(place: usize, bytes: &[u8]) -> Self {
        let mut shorter = vec![0; bytes.len() + 1];
        let mut len = 0;
        for (at, byte) in bytes.iter().enumerate().skip(1) {
            while len > 0 && bytes.get(len) != Some(byte) {
                len = shorter.get(len).copied().unwrap_or(0);
            }
            if bytes.get(len) == Some(byte) {
                len += 1;
            }
            if let Some(entry) = shorter.get_mut(at + 1) {
                *entry = len;
            }
        }
        Self { place, bytes: bytes.into(), shorter: shorter.into(), matched: 0 }
    }

    fn step(&mut self, byte: u8) {
        while self.matched > 0 && self.bytes.get(self.matched) != Some(&byte) {
            self.matched = self.shorter.get(self.matched).copied().unwrap_or(0);
        }
        if self.bytes.get(self.matched) == Some(&byte) {
            self.matched += 1;
        }
    }
}

#[cfg(test)]
#[path = "stop_tests.rs"]
mod tests;
