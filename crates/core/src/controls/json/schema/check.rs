//! Holds a value against a compiled schema.
//!
//! *Invariant:* the number of steps depends on the schema and the value alone, and so does
//! whether there are too many.

use serde_json::Value;

use super::{
    CompiledSchema, Keyword, Misfit, NodeId, PropertyKeywords, ResourceId, assertions,
    pattern::Pattern,
    values::{OutOfSteps, Steps, text_steps},
};

/// How many nodes may be applied recursively, over all levels of a value: they are on the stack.
const LEVELS: usize = 1_000;

/// A value that takes more steps than this is not checked to its end. Each takes well below
/// a microsecond.
pub(super) const STEPS: u64 = 20_000_000;

/// Checks a value in at most `limit` steps. Also gives their number.
pub(super) fn check(
    schema: &CompiledSchema,
    value: &Value,
    limit: u64,
) -> (Result<(), Misfit>, u64) {
    let mut run = CheckRun {
        schema,
        steps: Steps::new(limit),
        levels: 0,
        scope: Vec::new(),
        quiet: 0,
        what: String::new(),
        path: Vec::new(),
    };
    let result = run.apply(schema.root, value, None).map_err(|stop| match stop {
        CheckStop::TooMuch => Misfit::TooMuch,
        CheckStop::Invalid => {
            let path = run.path.iter().rev().fold(String::new(), |path, name| {
                path + "/" + &name.replace('~', "~0").replace('/', "~1")
            });
            Misfit::Invalid { path, what: std::mem::take(&mut run.what) }
        }
    });
    (result, limit - run.steps.left())
}

struct CheckRun<'s> {
    schema: &'s CompiledSchema,
    steps: Steps,
    levels: usize,
    /// The resources that led to the present node, outermost first.
    scope: Vec<ResourceId>,
    /// Above zero in branches whose failure is not the failure of the value.
    quiet: usize,
    /// What is wrong, and the names of the members and elements around it, innermost first.
    what: String,
    path: Vec<String>,
}

/// Why the check ended before the end of the value.
#[derive(Debug, PartialEq, Eq)]
enum CheckStop {
    Invalid,
    TooMuch,
}

impl From<OutOfSteps> for CheckStop {
    fn from(_: OutOfSteps) -> Self {
        Self::TooMuch
    }
}

type Checked = Result<(), CheckStop>;

/// Which members or elements of a value some keyword has looked at; collected only where a
/// keyword asks for it.
struct Evaluated(Vec<bool>);

impl Evaluated {
    fn of(value: &Value) -> Self {
        Self(vec![false; inside(value)])
    }

    fn mark(&mut self, at: usize) {
        if let Some(mark) = self.0.get_mut(at) {
            *mark = true;
        }
    }

    fn has(&self, at: usize) -> bool {
        self.0.get(at).copied().unwrap_or_default()
    }

    fn add(&mut self, more: &Self) {
        for (mark, more) in self.0.iter_mut().zip(&more.0) {
            *mark |= more;
        }
    }
}

/// How many members or elements a value has.
fn inside(value: &Value) -> usize {
    match value {
        Value::Array(values) => values.len(),
        Value::Object(values) => values.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn mark(evaluated: &mut Option<&mut Evaluated>, at: usize) {
    if let Some(evaluated) = evaluated {
        evaluated.mark(at);
    }
}

impl<'s> CheckRun<'s> {
    /// Holds a value against a node. Recursion ends at `LEVELS`.
    fn apply(&mut self, id: NodeId, value: &Value, outer: Option<&mut Evaluated>) -> Checked {
        let Some(node) = self.schema.nodes.get(id) else { return Ok(()) };
        self.steps.take(1)?;
        if self.levels == LEVELS {
            return Err(CheckStop::TooMuch);
        }
        self.levels += 1;
        let entered = self.scope.last() != Some(&node.resource);
        if entered {
            self.scope.push(node.resource);
        }
        let result = if node.unevaluated {
            self.apply_unevaluated(&node.keywords, value, outer)
        } else {
            self.keywords(&node.keywords, value, outer)
        };
        if entered {
            self.scope.pop();
        }
        self.levels -= 1;
        result
    }

    /// A node that asks what its keywords have looked at; what others did does not count.
    fn apply_unevaluated(
        &mut self,
        keywords: &'s [Keyword],
        value: &Value,
        outer: Option<&mut Evaluated>,
    ) -> Checked {
        self.steps.take(inside(value) as u64)?;
        let mut own = Evaluated::of(value);
        self.keywords(keywords, value, Some(&mut own))?;
        if let Some(outer) = outer {
            outer.add(&own);
        }
        Ok(())
    }

    fn keywords(
        &mut self,
        keywords: &'s [Keyword],
        value: &Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Checked {
        for keyword in keywords {
            self.steps.take(1)?;
            self.keyword(keyword, value, evaluated.as_deref_mut())?;
        }
        Ok(())
    }

    fn keyword(
        &mut self,
        keyword: &'s Keyword,
        value: &Value,
        evaluated: Option<&mut Evaluated>,
    ) -> Checked {
        match keyword {
            Keyword::AllOf(nodes) => self.all_of(nodes, value, evaluated),
            Keyword::AnyOf(nodes) => self.any_of(nodes, value, evaluated),
            Keyword::OneOf(nodes) => self.one_of(nodes, value, evaluated),
            Keyword::Not(node) => self.not(*node, value),
            Keyword::If { test, then, otherwise } => {
                self.if_then(*test, *then, *otherwise, value, evaluated)
            }
            Keyword::Ref(node) => self.apply(*node, value, evaluated),
            Keyword::DynamicRef { anchor, fallback } => {
                let node = self.dynamic(*anchor, *fallback)?;
                self.apply(node, value, evaluated)
            }
            Keyword::DependentSchemas(schemas) => self.dependent(schemas, value, evaluated),
            Keyword::Members(members) => self.members(members, value, evaluated),
            Keyword::PropertyNames(node) => self.property_names(*node, value),
            Keyword::Elements { prefix, rest } => self.elements(prefix, *rest, value, evaluated),
            Keyword::Contains { node, least, most, evaluates } => {
                let evaluated = evaluated.filter(|_| *evaluates);
                self.contains(*node, *least, *most, value, evaluated)
            }
            Keyword::UnevaluatedItems(node) => self.unevaluated_items(*node, value, evaluated),
            Keyword::UnevaluatedProperties(node) => {
                self.unevaluated_properties(*node, value, evaluated)
            }
            _ => self.assertion(keyword, value),
        }
    }

    /// A keyword that looks at the value alone.
    fn assertion(&mut self, keyword: &Keyword, value: &Value) -> Checked {
        let holds = match (keyword, value) {
            (Keyword::Pattern(pattern), Value::String(text)) => self.matches(pattern, text)?,
            _ => assertions::holds(keyword, value, &mut self.steps)?,
        };
        if holds { Ok(()) } else { self.fail(|| assertions::words(keyword, value)) }
    }

    // === failures ===

    /// The value is wrong. The words never have the value itself in them.
    fn fail(&mut self, what: impl FnOnce() -> String) -> Checked {
        if self.quiet == 0 {
            self.what = what();
        }
        Err(CheckStop::Invalid)
    }

    /// Whether a value fits a node, where both answers are possible.
    fn fits(
        &mut self,
        node: NodeId,
        value: &Value,
        evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, CheckStop> {
        self.quiet += 1;
        let result = self.branch(node, value, evaluated);
        self.quiet -= 1;
        match result {
            Ok(()) => Ok(true),
            Err(CheckStop::Invalid) => Ok(false),
            Err(CheckStop::TooMuch) => Err(CheckStop::TooMuch),
        }
    }

    /// What a branch looked at counts only if the value fits it.
    fn branch(
        &mut self,
        node: NodeId,
        value: &Value,
        evaluated: Option<&mut Evaluated>,
    ) -> Checked {
        let Some(evaluated) = evaluated else { return self.apply(node, value, None) };
        self.steps.take(inside(value) as u64)?;
        let mut own = Evaluated::of(value);
        self.apply(node, value, Some(&mut own))?;
        evaluated.add(&own);
        Ok(())
    }

    fn member(&mut self, node: NodeId, name: &str, value: &Value) -> Checked {
        let result = self.apply(node, value, None);
        if result.is_err() && self.quiet == 0 {
            self.path.push(name.to_owned());
        }
        result
    }

    fn element(&mut self, node: NodeId, index: usize, value: &Value) -> Checked {
        let result = self.apply(node, value, None);
        if result.is_err() && self.quiet == 0 {
            self.path.push(index.to_string());
        }
        result
    }

    // === schemas for the same value ===

    fn all_of(
        &mut self,
        nodes: &[NodeId],
        value: &Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Checked {
        for node in nodes {
            self.apply(*node, value, evaluated.as_deref_mut())?;
        }
        Ok(())
    }

    fn any_of(
        &mut self,
        nodes: &[NodeId],
        value: &Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Checked {
        let mut any = false;
        for node in nodes {
            any |= self.fits(*node, value, evaluated.as_deref_mut())?;
            if any && evaluated.is_none() {
                break;
            }
        }
        if any {
            return Ok(());
        }
        self.fail(|| "value fits none of the schemas in `anyOf`".to_owned())
    }

    fn one_of(
        &mut self,
        nodes: &[NodeId],
        value: &Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Checked {
        let mut any = false;
        for node in nodes {
            if self.fits(*node, value, evaluated.as_deref_mut())? {
                if any {
                    return self
                        .fail(|| "value fits more than one of the schemas in `oneOf`".to_owned());
                }
                any = true;
            }
        }
        if any {
            return Ok(());
        }
        self.fail(|| "value fits none of the schemas in `oneOf`".to_owned())
    }

    fn not(&mut self, node: NodeId, value: &Value) -> Checked {
        if self.fits(node, value, None)? {
            return self.fail(|| "value fits the schema in `not`".to_owned());
        }
        Ok(())
    }

    fn if_then(
        &mut self,
        test: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
        value: &Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Checked {
        let next = if self.fits(test, value, evaluated.as_deref_mut())? { then } else { otherwise };
        next.map_or(Ok(()), |node| self.apply(node, value, evaluated))
    }

    /// The node with the anchor in the outermost resource that has one.
    fn dynamic(&mut self, anchor: usize, fallback: NodeId) -> Result<NodeId, CheckStop> {
        self.steps.take(self.scope.len() as u64)?;
        let Some(anchors) = self.schema.dynamic.get(anchor) else { return Ok(fallback) };
        let outermost = self.scope.iter().find_map(|resource| anchors.get(resource));
        Ok(outermost.copied().unwrap_or(fallback))
    }

    fn dependent(
        &mut self,
        schemas: &[(String, NodeId)],
        value: &Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Checked {
        let Value::Object(values) = value else { return Ok(()) };
        for (name, node) in schemas {
            self.steps.take(1)?;
            if values.contains_key(name) {
                self.apply(*node, value, evaluated.as_deref_mut())?;
            }
        }
        Ok(())
    }

    // === schemas for what is inside the value ===

    fn members(
        &mut self,
        members: &PropertyKeywords,
        value: &Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Checked {
        let Value::Object(values) = value else { return Ok(()) };
        for (at, (name, value)) in values.iter().enumerate() {
            self.steps.take(1)?;
            let mut known = false;
            if let Some(node) = members.named.get(name) {
                known = true;
                self.member(*node, name, value)?;
            }
            for (pattern, node) in &members.patterns {
                if self.matches(pattern, name)? {
                    known = true;
                    self.member(*node, name, value)?;
                }
            }
            if let Some(node) = members.additional.filter(|_| !known) {
                known = true;
                self.member(node, name, value)?;
            }
            if known {
                mark(&mut evaluated, at);
            }
        }
        Ok(())
    }

    fn property_names(&mut self, node: NodeId, value: &Value) -> Checked {
        let Value::Object(values) = value else { return Ok(()) };
        for name in values.keys() {
            self.steps.take(text_steps(name))?;
            if !self.fits(node, &Value::String(name.clone()), None)? {
                return self.fail(|| {
                    format!("the name {name:?} does not fit the schema in `propertyNames`")
                });
            }
        }
        Ok(())
    }

    fn elements(
        &mut self,
        prefix: &[NodeId],
        rest: Option<NodeId>,
        value: &Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Checked {
        let Value::Array(values) = value else { return Ok(()) };
        for (at, value) in values.iter().enumerate() {
            let Some(node) = prefix.get(at).copied().or(rest) else { break };
            self.element(node, at, value)?;
            mark(&mut evaluated, at);
        }
        Ok(())
    }

    fn contains(
        &mut self,
        node: NodeId,
        least: u64,
        most: Option<u64>,
        value: &Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Checked {
        let Value::Array(values) = value else { return Ok(()) };
        let mut found = 0_u64;
        for (at, value) in values.iter().enumerate() {
            if self.fits(node, value, None)? {
                found += 1;
                mark(&mut evaluated, at);
            }
            if let Some(most) = most.filter(|most| found > *most) {
                return self
                    .fail(|| format!("more than {most} elements fit the schema in `contains`"));
            }
            if most.is_none() && evaluated.is_none() && found >= least {
                break;
            }
        }
        if found < least {
            return self
                .fail(|| format!("fewer than {least} elements fit the schema in `contains`"));
        }
        Ok(())
    }

    fn unevaluated_items(
        &mut self,
        node: NodeId,
        value: &Value,
        evaluated: Option<&mut Evaluated>,
    ) -> Checked {
        let (Value::Array(values), Some(evaluated)) = (value, evaluated) else { return Ok(()) };
        for (at, value) in values.iter().enumerate() {
            if !evaluated.has(at) {
                self.element(node, at, value)?;
                evaluated.mark(at);
            }
        }
        Ok(())
    }

    fn unevaluated_properties(
        &mut self,
        node: NodeId,
        value: &Value,
        evaluated: Option<&mut Evaluated>,
    ) -> Checked {
        let (Value::Object(values), Some(evaluated)) = (value, evaluated) else { return Ok(()) };
        for (at, (name, value)) in values.iter().enumerate() {
            if !evaluated.has(at) {
                self.member(node, name, value)?;
                evaluated.mark(at);
            }
        }
        Ok(())
    }

    fn matches(&mut self, pattern: &Pattern, text: &str) -> Result<bool, CheckStop> {
        self.steps.take(text_steps(text).saturating_mul(pattern.weight()))?;
        pattern.matches(text).ok_or(CheckStop::TooMuch)
    }
}
