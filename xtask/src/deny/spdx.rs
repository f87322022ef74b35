//! License expressions: `MIT OR (Apache-2.0 WITH LLVM-exception AND ISC)`, and `MIT/Apache-2.0`
//! as crates wrote it before there was a standard.

use anyhow::{Context as _, bail};

/// Whether some choice among the licenses is allowed. `allowed` is asked for each license with
/// its exception, as in `Apache-2.0 WITH LLVM-exception`.
pub(super) fn satisfied(
    expression: &str,
    allowed: &mut impl FnMut(&str) -> bool,
) -> anyhow::Result<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut tokens: Vec<&str> = spaced.split_whitespace().rev().collect();
    let verdict = any(&mut tokens, allowed).with_context(|| format!("license {expression:?}"))?;
    if let Some(token) = tokens.last() {
        bail!("license {expression:?}: unexpected {token:?}");
    }
    Ok(verdict)
}

/// Alternatives. All of them are read, so that a mistake is found in each. The next token is the
/// last of the list.
fn any(tokens: &mut Vec<&str>, allowed: &mut impl FnMut(&str) -> bool) -> anyhow::Result<bool> {
    let mut verdict = all(tokens, allowed)?;
    while tokens.pop_if(|token| *token == "OR").is_some() {
        verdict |= all(tokens, allowed)?;
    }
    Ok(verdict)
}

fn all(tokens: &mut Vec<&str>, allowed: &mut impl FnMut(&str) -> bool) -> anyhow::Result<bool> {
    let mut verdict = one(tokens, allowed)?;
    while tokens.pop_if(|token| *token == "AND").is_some() {
        verdict &= one(tokens, allowed)?;
    }
    Ok(verdict)
}

fn one(tokens: &mut Vec<&str>, allowed: &mut impl FnMut(&str) -> bool) -> anyhow::Result<bool> {
    match tokens.pop() {
        Some("(") => {
            let verdict = any(tokens, allowed)?;
            tokens.pop_if(|token| *token == ")").context("a parenthesis is not closed")?;
            Ok(verdict)
        }
        Some(token @ (")" | "OR" | "AND" | "WITH")) => bail!("unexpected {token:?}"),
        Some(license) if tokens.pop_if(|token| *token == "WITH").is_some() => {
            let exception = tokens.pop().context("WITH needs an exception")?;
            Ok(allowed(&format!("{license} WITH {exception}")))
        }
        Some(license) => Ok(allowed(license)),
        None => bail!("a license is missing"),
    }
}
