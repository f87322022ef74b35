//! What a schema may ask for. A few lines can ask for more work than there is time: a part
//! that is referred to twice by a part that is referred to twice. That is counted once for
//! each schema, without following a path twice; what an answer takes is counted while it is
//! checked.

use super::{CompiledSchema, Keyword, NodeId};

/// How many parts in a row may apply to the same value.
const IN_A_ROW: usize = 32;

/// How many parts may be checked for one value, each as often as there are paths to it.
const WAYS: u64 = 10_000;

/// What is known of a node: how many paths lead from it to parts that apply to the same value,
/// and how many there are in the longest of them.
#[derive(Clone, Copy)]
enum PathCount {
    Unknown,
    /// It is being counted: a path that leads here again is a cycle.
    Open,
    Counted {
        ways: u64,
        length: usize,
    },
}

/// # Errors
/// Says why the schema is too expensive to check.
pub(super) fn check(schema: &CompiledSchema) -> Result<(), String> {
    let mut states = vec![PathCount::Unknown; schema.nodes.len()];
    let mut seen = vec![false; schema.nodes.len()];
    let mut reachable = vec![schema.root];
    while let Some(id) = reachable.pop() {
        let Some(seen) = seen.get_mut(id).filter(|seen| !**seen) else { continue };
        *seen = true;
        count(schema, id, &mut states)?;
        reachable.extend(same_value(schema, id));
        let keywords = schema.nodes.get(id).map(|node| &node.keywords);
        keywords.into_iter().flatten().for_each(|keyword| keyword.inner(&mut reachable));
    }
    Ok(())
}

/// Counts one node and all that apply to the same value.
fn count(schema: &CompiledSchema, id: NodeId, states: &mut [PathCount]) -> Result<(), String> {
    let mut waiting = vec![id];
    while let Some(id) = waiting.last().copied() {
        let next = same_value(schema, id);
        let Some(state) = states.get_mut(id) else { break };
        match *state {
            PathCount::Counted { .. } => {
                waiting.pop();
            }
            PathCount::Unknown => {
                *state = PathCount::Open;
                for to in next {
                    match states.get(to) {
                        Some(PathCount::Unknown) => waiting.push(to),
                        Some(PathCount::Open) => {
                            return Err("it has a reference cycle that never ends".to_owned());
                        }
                        Some(PathCount::Counted { .. }) | None => {}
                    }
                }
            }
            PathCount::Open => {
                let (mut ways, mut length) = (1_u64, 1_usize);
                for to in next {
                    if let Some(PathCount::Counted { ways: more, length: behind }) = states.get(to)
                    {
                        ways = ways.saturating_add(*more);
                        length = length.max(behind + 1);
                    }
                }
                if ways > WAYS || length > IN_A_ROW {
                    return Err(format!(
                        "checking one value would take more than {WAYS} subschemas, or more than \
                         {IN_A_ROW} in a chain"
                    ));
                }
                if let Some(state) = states.get_mut(id) {
                    *state = PathCount::Counted { ways, length };
                }
                waiting.pop();
            }
        }
    }
    Ok(())
}

/// The nodes that a node applies to the same value. A dynamic reference may lead to each of
/// its anchors.
fn same_value(schema: &CompiledSchema, id: NodeId) -> Vec<NodeId> {
    let mut to = Vec::new();
    for keyword in schema.nodes.get(id).into_iter().flat_map(|node| &node.keywords) {
        match keyword {
            Keyword::AllOf(nodes) | Keyword::AnyOf(nodes) | Keyword::OneOf(nodes) => {
                to.extend(nodes);
            }
            Keyword::Not(node) | Keyword::Ref(node) => to.push(*node),
            Keyword::If { test, then, otherwise } => {
                to.push(*test);
                to.extend(then.iter().chain(otherwise));
            }
            Keyword::DependentSchemas(nodes) => to.extend(nodes.iter().map(|(_, node)| node)),
            Keyword::DynamicRef { anchor, fallback } => {
                let anchors = schema.dynamic.get(*anchor).into_iter().flat_map(|all| all.values());
                to.extend(anchors.filter(|node| *node != fallback));
                to.push(*fallback);
            }
            _ => {}
        }
    }
    to
}

impl Keyword {
    /// Adds the nodes that are applied to what is inside of a value.
    fn inner(&self, to: &mut Vec<NodeId>) {
        match self {
            Self::Members(members) => {
                to.extend(members.named.values());
                to.extend(members.patterns.iter().map(|(_, node)| node));
                to.extend(members.additional);
            }
            Self::Elements { prefix, rest } => to.extend(prefix.iter().chain(rest)),
            Self::PropertyNames(node)
            | Self::Contains { node, .. }
            | Self::UnevaluatedItems(node)
            | Self::UnevaluatedProperties(node) => to.push(*node),
            _ => {}
        }
    }
}
