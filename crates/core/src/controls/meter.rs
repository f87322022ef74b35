//! How much an answer may still say, counted in tokens as it grows.
//!
//! A token is a byte at least, so nothing is counted while there are fewer bytes than
//! tokens left. After that only what cannot change any more is: the text up to a place
//! where the tokenizer splits it whatever follows.

use crate::{models::Family, tokens};

/// A run of text without such a place is split here all the same. That costs a token at
/// most, and the tokenizer needs far longer for one long run than for several.
const LONGEST_RUN: usize = 1 << 10;

/// From this size on, counting takes a while.
const QUICK: usize = 4 << 10;

#[derive(Debug)]
pub(super) struct Meter {
    budget: u64,
    /// Tokens of everything before `open`.
    used: u64,
    /// What is not counted yet.
    open: String,
    /// Where one text in it ends and another begins.
    seams: Vec<usize>,
    /// How much of it the client has.
    given: usize,
    /// The tokenizer is loaded.
    warm: bool,
}

/// What became of a piece of text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Measured {
    /// What the client may see now.
    pub(super) give: String,
    /// There is more, and it is too much.
    pub(super) over: bool,
}

impl Meter {
    pub(super) fn new(limit: u64, family: Family) -> Self {
        Self {
            budget: tokens::in_vocabulary(limit, family).max(1),
            used: 0,
            open: String::new(),
            seams: Vec::new(),
            given: 0,
            warm: false,
        }
    }

    /// Whether counting this much more text takes too long for the event loop.
    pub(super) fn is_slow(&self, more: usize) -> bool {
        let open = self.open.len() + more;
        !self.fits(open) && (!self.warm || open > QUICK)
    }

    /// A further piece of the text that is being written.
    pub(super) fn push(&mut self, piece: String) -> Measured {
        if self.left() == 0 && !piece.is_empty() {
            return Measured { give: String::new(), over: true };
        }
        let whole = self.given == self.open.len();
        self.open.push_str(&piece);
        if self.fits(self.open.len()) {
            let give = if whole { piece } else { self.give_to(self.open.len()) };
            self.given = self.open.len();
            return Measured { give, over: false };
        }
        let end = self.settled();
        self.count_to(end)
    }

    /// The text is over; what comes now is another one.
    pub(super) fn close(&mut self) -> Measured {
        let end = self.open.len();
        let measured = if self.given == end && self.fits(end) {
            Measured { give: String::new(), over: false }
        } else {
            self.count_to(end)
        };
        let end = self.open.len();
        if end > 0 && self.seams.last() != Some(&end) {
            self.seams.push(end);
        }
        measured
    }

    /// Something that counts, and goes out whatever it comes to.
    pub(super) fn note(&mut self, piece: &str) {
        self.open.push_str(piece);
        self.given = self.open.len();
    }

    /// Whether nothing more may be said. Call it between two texts.
    pub(super) fn is_spent(&mut self) -> bool {
        let end = self.open.len();
        if !self.fits(end + 1) {
            let over = self.count_to(end).over;
            return over || self.used >= self.budget;
        }
        false
    }

    /// Another answer comes in place of this one.
    pub(super) fn reset(&mut self) {
        self.used = 0;
        self.open.clear();
        self.seams.clear();
        self.given = 0;
    }

    fn fits(&self, bytes: usize) -> bool {
        self.left() >= u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    fn left(&self) -> u64 {
        self.budget.saturating_sub(self.used)
    }

    /// Counts up to a place at which the text splits, gives what is within the budget, and
    /// of the rest as much as must be.
    fn count_to(&mut self, end: usize) -> Measured {
        self.warm = true;
        let mut start = 0;
        while start < end {
            let stop = self.next_run(start, end);
            let run = self.open.get(start..stop).unwrap_or_default();
            let (count, bytes) = tokens::measure(run, self.left());
            let more = stop < self.open.len();
            if count > self.left() || (count == self.left() && more) {
                let cut = if count > self.left() { start + bytes } else { stop };
                let give = self.give_to(cut.max(self.given));
                self.used = self.budget;
                (self.given, self.open) = (0, String::new());
                self.seams.clear();
                return Measured { give, over: true };
            }
            self.used += count;
            start = stop;
        }
        // Every token has a byte, so these are safe whatever they turn out to be.
        let left = usize::try_from(self.left()).unwrap_or(usize::MAX);
        let safe = self.open.floor_char_boundary(end.saturating_add(left));
        let to = safe.max(self.given);
        let give = self.give_to(to);
        self.open.drain(..end);
        self.given = to.saturating_sub(end);
        self.seams.retain_mut(|seam| {
            *seam = seam.saturating_sub(end);
            *seam > 0
        });
        Measured { give, over: false }
    }

    fn give_to(&self, to: usize) -> String {
        self.open.get(self.given..to).unwrap_or_default().to_owned()
    }

    /// The end of what can be counted in one go from `start`: a seam, or a split that had
    /// to be forced.
    fn next_run(&self, start: usize, end: usize) -> usize {
        let seam = self.seams.iter().copied().find(|seam| *seam > start).unwrap_or(end).min(end);
        let text = self.open.get(start..seam).unwrap_or_default();
        let (mut last, mut forced) = (0, None);
        for (at, before, after) in pairs(text) {
            if at - last > LONGEST_RUN {
                forced = Some(text.floor_char_boundary(last + LONGEST_RUN));
                break;
            }
            if splits(before, after) {
                last = at;
            }
        }
        if forced.is_none() && text.len() - last > LONGEST_RUN {
            forced = Some(text.floor_char_boundary(last + LONGEST_RUN));
        }
        forced.map_or(seam, |at| start + at)
    }

    /// The last place at which the text splits whatever follows it.
    fn settled(&self) -> usize {
        let from = self.seams.last().copied().unwrap_or(0);
        let text = self.open.get(from..).unwrap_or_default();
        let mut last = 0;
        for (at, before, after) in pairs(text) {
            while at - last > LONGEST_RUN {
                last = text.floor_char_boundary(last + LONGEST_RUN);
            }
            if splits(before, after) {
                last = at;
            }
        }
        while text.len() - last > LONGEST_RUN {
            last = text.floor_char_boundary(last + LONGEST_RUN);
        }
        from + last
    }
}

/// Every place between two characters, and those.
fn pairs(text: &str) -> impl Iterator<Item = (usize, char, char)> {
    let after = text.char_indices().skip(1);
    text.chars().zip(after).map(|(before, (at, after))| (at, before, after))
}

/// Whether the tokenizer splits between these two in any text. Its pieces are a word with
/// at most one sign or space before it (and `'s` and the like behind), up to three digits,
/// signs with a space before and line breaks behind, or white space.
fn splits(before: char, after: char) -> bool {
    let sign = after.is_ascii() && !after.is_ascii_alphanumeric() && after != '\'';
    match before {
        _ if after == ' ' => !before.is_whitespace(),
        'a'..='z' | 'A'..='Z' => sign || after.is_ascii_digit(),
        '0'..='9' => after.is_ascii() && !after.is_ascii_digit(),
        // Letters without case: kana, Han, Hangul.
        '\u{3041}'..='\u{3096}'
        | '\u{30a1}'..='\u{30fa}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}' => {
            sign || matches!(after, '、' | '。' | '「' | '」' | '！' | '，' | '：' | '；' | '？')
        }
        _ => false,
    }
}

#[cfg(test)]
#[path = "meter_tests.rs"]
mod tests;
