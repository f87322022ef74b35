//! Results that are too long for a child. A model cannot read twenty megabytes, and
//! the child would hold all of it; what is left out is said where it is missing.

use std::borrow::Cow;

use crate::model::Part;

/// Cuts the texts of a result to `limit` bytes together, the longest ones first, and says
/// so in each that was cut. Images are left as they are.
pub(super) fn cap(content: &[Part], limit: usize) -> Cow<'_, [Part]> {
    let size = |part: &Part| match part {
        Part::Text(text) => text.len(),
        Part::Image(_) => 0,
    };
    let total: usize = content.iter().map(size).sum();
    if total <= limit {
        return Cow::Borrowed(content);
    }
    let mut keep: Vec<usize> = content.iter().map(size).collect();
    let mut excess = total - limit;
    while excess > 0
        && let Some(longest) = keep.iter_mut().max()
    {
        let cut = excess.min(*longest);
        *longest -= cut;
        excess -= cut;
    }
    let capped = content.iter().zip(keep).map(|(part, keep)| match part {
        Part::Text(text) if keep < text.len() => Part::Text(shortened(text, keep)),
        Part::Text(_) | Part::Image(_) => part.clone(),
    });
    Cow::Owned(capped.collect())
}

fn shortened(text: &str, keep: usize) -> String {
    let shown = text.get(..text.floor_char_boundary(keep)).unwrap_or_default();
    format!(
        "{shown}\n[Cut here: the first {} of {} bytes of this result are shown. Ask for less at a \
         time to see the rest.]",
        shown.len(),
        text.len()
    )
}

#[cfg(test)]
#[path = "cap_tests.rs"]
mod tests;
