//! Rust sources as trees of words, signs and groups in brackets, with their lines. Comments,
//! literals and lifetimes are dropped: none of them names a module.

use crate::lexer::{SourceTokenKind, tokens};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenTree<'a> {
    Word(&'a str, usize),
    /// One character, or `::` or `=>`.
    Sign(&'a str),
    /// By the bracket that opens it.
    Group(char, Vec<TokenTree<'a>>),
}

/// A bracket without its partner ends its group or the text: the compiler reports it.
pub(super) fn trees(source: &str) -> Vec<TokenTree<'_>> {
    let mut open = Vec::new();
    let mut inner = Vec::new();
    for token in tokens(source) {
        match token.kind {
            SourceTokenKind::Dropped | SourceTokenKind::Text { .. } => {}
            SourceTokenKind::Word => inner.push(TokenTree::Word(token.text, token.line)),
            SourceTokenKind::Sign => inner.push(TokenTree::Sign(token.text)),
            SourceTokenKind::Open(bracket) => open.push((bracket, std::mem::take(&mut inner))),
            SourceTokenKind::Close => {
                if let Some((bracket, outer)) = open.pop() {
                    let group = std::mem::replace(&mut inner, outer);
                    inner.push(TokenTree::Group(bracket, group));
                }
            }
        }
    }
    for (bracket, outer) in open.into_iter().rev() {
        let group = std::mem::replace(&mut inner, outer);
        inner.push(TokenTree::Group(bracket, group));
    }
    inner
}
