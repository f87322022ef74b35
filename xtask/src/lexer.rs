//! Rust sources as trees of words, signs, texts and groups in brackets, with their lines. Comments,
//! lifetimes and other literals are left out.

use anyhow::anyhow;
use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SourceTree<'a> {
    Word(&'a str, usize),
    /// One character, or `::` or `=>`.
    Sign(&'a str),
    /// A string in quotes, with what stands before them.
    Text(&'a str, usize),
    /// By the bracket that opens it.
    Group(char, Vec<SourceTree<'a>>),
}

/// # Errors
/// The source is not valid Rust.
pub(crate) fn trees(source: &str) -> anyhow::Result<Vec<SourceTree<'_>>> {
    let tokens: TokenStream = source.parse().map_err(|error| anyhow!("{error}"))?;
    Ok(grow(tokens, source))
}

fn grow(tokens: TokenStream, source: &str) -> Vec<SourceTree<'_>> {
    let text = |span: Span| source.get(span.byte_range()).unwrap_or_default();
    let mut trees = Vec::new();
    // The sign that belongs to the next one.
    let mut joint = None;
    for token in tokens {
        let (span, line) = (token.span(), token.span().start().line);
        let before = joint.take();
        match token {
            TokenTree::Ident(_) if before == Some('\'') => {}
            TokenTree::Ident(_) => trees.push(SourceTree::Word(text(span), line)),
            TokenTree::Punct(sign) => {
                let sign = (before, sign.as_char(), sign.spacing());
                let pair = match sign {
                    (Some(':'), ':', _) => Some("::"),
                    (Some('='), '>', _) => Some("=>"),
                    _ => None,
                };
                trees.pop_if(|_| pair.is_some());
                joint = Some(sign.1).filter(|_| sign.2 == Spacing::Joint && pair.is_none());
                if sign.1 != '\'' {
                    trees.push(SourceTree::Sign(pair.unwrap_or(text(span))));
                }
            }
            TokenTree::Literal(_) if is_string(text(span)) => {
                trees.push(SourceTree::Text(text(span), line));
            }
            TokenTree::Literal(_) => {}
            TokenTree::Group(group) => {
                let inner = grow(group.stream(), source);
                trees.push(match group.delimiter() {
                    Delimiter::Parenthesis => SourceTree::Group('(', inner),
                    Delimiter::Bracket => SourceTree::Group('[', inner),
                    Delimiter::Brace | Delimiter::None => SourceTree::Group('{', inner),
                });
            }
        }
    }
    trees
}

/// `"…"`, `r"…"`, `br#"…"#` and so on. A comment's text has no quotes in the source.
fn is_string(literal: &str) -> bool {
    literal.trim_start_matches(['b', 'c', 'r', '#']).starts_with('"')
}
