//! A page as a list of sections, and two pages side by side.

use super::section::{PageSection, SectionMark, mark};

pub(super) struct TranslatedPage<'a> {
    sections: Vec<PageSection<'a>>,
}

/// What comparing two pages gave.
#[derive(Debug)]
pub(super) struct PageComparison {
    /// Sections whose English text has changed since.
    pub(super) stale: Vec<String>,
    /// What no new hash can fix.
    pub(super) shape: Vec<String>,
    /// The translation with the hashes of today, where the shape is right.
    pub(super) accepted: String,
    pub(super) changes: usize,
}

impl<'a> TranslatedPage<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let first = PageSection { level: 0, title: "", lines: Vec::new() };
        let mut sections = vec![first];
        let mut in_code = false;
        for line in text.lines() {
            in_code ^= line.trim_start().starts_with("```");
            match heading(line).filter(|_| !in_code) {
                Some((level, title)) => {
                    sections.push(PageSection { level, title, lines: Vec::new() })
                }
                None => {
                    if let Some(section) = sections.last_mut() {
                        section.lines.push(line);
                    }
                }
            }
        }
        // A page begins with its title; what is before it would have no mark.
        sections.retain(|section| section.level > 0 || !section.lines.is_empty());
        Self { sections }
    }

    /// `self` is the English page.
    pub(super) fn against(&self, translation: &Self) -> PageComparison {
        let mut report = PageComparison {
            stale: Vec::new(),
            shape: Vec::new(),
            accepted: String::new(),
            changes: 0,
        };
        let (there, here) = (self.outline(), translation.outline());
        if there != here {
            let named = |(place, section): (usize, &PageSection<'_>)| {
                let name = section.mark().map_or(section.title, |mark| mark.title);
                (self.sections.get(place)?.title != name).then(|| name.to_owned())
            };
            let first = translation.sections.iter().enumerate().find_map(named);
            let near = first.or_else(|| self.sections.get(here.len()).map(|s| s.title.to_owned()));
            report.shape.push(format!(
                "has {} headings, the English page {}, or they stand otherwise; look near \"{}\"",
                here.len(),
                there.len(),
                near.unwrap_or_default()
            ));
            return report;
        }
        for (english, translated) in self.sections.iter().zip(&translation.sections) {
            let faults = differences(english, translated);
            let fits = faults.is_empty();
            report.shape.extend(faults);
            let hash = english.hash();
            let fresh = translated
                .mark()
                .is_some_and(|mark| mark == SectionMark { title: english.title, hash: &hash });
            if !fresh {
                report.stale.push(format!("\"{}\" is of an older text", english.title));
            }
            let renewed = (!fresh && fits).then_some((english.title, hash.as_str()));
            report.changes += usize::from(renewed.is_some());
            write(&mut report.accepted, translated, renewed);
        }
        report
    }

    fn outline(&self) -> Vec<usize> {
        self.sections.iter().map(|section| section.level).collect()
    }
}

/// What is not the same in both, in words.
fn differences(english: &PageSection<'_>, translated: &PageSection<'_>) -> Vec<String> {
    let (there, here) = (english.shape(), translated.shape());
    let mut faults = Vec::new();
    let mut report = |what: &str, differs: bool, detail: String| {
        if differs {
            faults.push(format!("\"{}\": {what} differ ({detail})", english.title));
        }
    };
    let rows = format!("rows {:?}, English {:?}", here.tables, there.tables);
    report("tables", here.tables != there.tables, rows);
    let items = format!("{}, English {}", here.items, there.items);
    report("list items", here.items != there.items, items);
    let links = format!("{}, English {}", here.links, there.links);
    report("links", here.links != there.links, links);
    let first = there.code.iter().flatten().zip(here.code.iter().flatten()).find(|(a, b)| a != b);
    let line = first.map_or_else(|| "one has more".to_owned(), |(_, b)| format!("see `{b}`"));
    report("blocks of code", here.code != there.code, line);
    faults
}

/// A section as it stands, or with another mark.
fn write(text: &mut String, section: &PageSection<'_>, renewed: Option<(&str, &str)>) {
    let mut lines = Vec::new();
    if section.level > 0 {
        lines.push(format!("{} {}", "#".repeat(section.level), section.title));
    }
    let mut left = section.lines.as_slice();
    if let Some((title, hash)) = renewed {
        if section.mark().is_some() {
            let place = left.iter().position(|line| mark(line).is_some());
            left = place.and_then(|at| left.get(at + 1..)).unwrap_or(left);
        }
        lines.push(format!("<!-- en: {title} {hash} -->"));
    }
    lines.extend(left.iter().map(|line| (*line).to_owned()));
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    title.strip_prefix(' ').filter(|_| (1..=6).contains(&level)).map(|title| (level, title.trim()))
}
