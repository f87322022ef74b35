//! One section of a page: a heading and what stands below it, up to the next heading.

/// A heading and the lines below it.
#[derive(Debug, PartialEq)]
pub(super) struct PageSection<'a> {
    /// 0 for what comes before the first heading.
    pub(super) level: usize,
    pub(super) title: &'a str,
    /// Without the heading.
    pub(super) lines: Vec<&'a str>,
}

/// What must be the same in both languages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SectionShape {
    /// Rows of each table, with its head.
    pub(super) tables: Vec<usize>,
    pub(super) items: usize,
    pub(super) links: usize,
    /// The lines of each block of code, without comments.
    pub(super) code: Vec<Vec<String>>,
}

/// What a translated section says about where it comes from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SectionMark<'a> {
    pub(super) title: &'a str,
    pub(super) hash: &'a str,
}

impl<'a> PageSection<'a> {
    /// The mark, which is the first line that is not empty.
    pub(super) fn mark(&self) -> Option<SectionMark<'a>> {
        let first = self.lines.iter().find(|line| !line.trim().is_empty())?;
        mark(first)
    }

    /// Of the words, so that lines may be wrapped again.
    pub(super) fn hash(&self) -> String {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        let words = self.lines.iter().flat_map(|line| line.split_whitespace());
        let mut hash = OFFSET;
        for word in std::iter::once(self.title).chain(words) {
            // A word ends with a space, so that two are not taken for one.
            for byte in word.bytes().chain([b' ']) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
            }
        }
        format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
    }

    pub(super) fn shape(&self) -> SectionShape {
        let mut shape = SectionShape::default();
        let mut fence: Option<&str> = None;
        let mut in_table = false;
        for line in &self.lines {
            let text = line.trim();
            if let Some(info) = text.strip_prefix("```") {
                if fence.is_none() {
                    shape.code.push(vec![info.to_owned()]);
                }
                fence = if fence.is_some() { None } else { Some(info) };
            } else if let Some(info) = fence {
                let code = without_comment(text, info);
                if let Some(block) = shape.code.last_mut().filter(|_| !code.is_empty()) {
                    block.push(code.to_owned());
                }
            } else {
                let row = text.starts_with('|');
                match shape.tables.last_mut().filter(|_| row && in_table) {
                    Some(rows) => *rows += 1,
                    None if row => shape.tables.push(1),
                    None => {}
                }
                in_table = row;
                shape.items += usize::from(is_item(text));
                shape.links += text.matches("](").count();
            }
        }
        shape
    }
}

pub(super) fn mark(line: &str) -> Option<SectionMark<'_>> {
    let inside = line.trim().strip_prefix("<!-- en: ")?.strip_suffix(" -->")?;
    let (title, hash) = inside.rsplit_once(' ')?;
    Some(SectionMark { title, hash })
}

fn is_item(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.starts_with("- ") || (number.len() < text.len() && number.starts_with(". "))
}

/// Comments are words, and may be translated.
fn without_comment<'a>(line: &'a str, info: &str) -> &'a str {
    let language = info.split_whitespace().next().unwrap_or_default();
    if !["sh", "toml", "yaml"].contains(&language) {
        return line;
    }
    let comment = if line.starts_with('#') { Some(0) } else { line.find("  #") };
    let code = comment.and_then(|at| line.get(..at)).unwrap_or(line);
    code.trim_end()
}
