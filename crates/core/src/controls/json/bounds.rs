//! What a schema may cost. Its author is a client, and a few lines can ask for more work
//! than there is time: a part that is referred to twice by a part that is referred to
//! twice. This is counted, without following a path twice, before anything is compiled,
//! and again for each answer.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::{Map, Value};

use crate::codec::connect::percent_decode;

/// How many references and parts may lie between the schema and its farthest part.
const STEPS: usize = 64;

/// How many parts may in a row speak of the same value.
const IN_PLACE: usize = 32;

/// How many parts one value may be held against, each as often as there are ways to it.
const WAYS: u64 = 10_000;

/// How many patterns there may be, and how long they may be together.
const PATTERNS: usize = 100;
const PATTERN_BYTES: usize = 16 << 10;

/// How many parts in a row an answer may be held against, over all its levels: they end up
/// on the stack.
const LEVELS: usize = 1_000;

/// How many pairs of values and parts are looked at to find the cost of an answer.
const PAIRS: usize = 10_000_000;

/// An answer that takes more steps than this is not checked. Each takes well below a
/// microsecond.
const TOO_MUCH: u64 = 100_000_000;

/// Beyond this it is only found out whether an answer fits, not where it does not.
const MUCH: u64 = 1_000_000;

/// What a pattern counts for so many bytes of text.
const TEXT_STEP: u64 = 64;
const PATTERN: u64 = 10;
const HARD_PATTERN: u64 = 20_000;

/// What the check of an answer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    Little,
    Much,
    TooMuch,
}

/// The parts of a schema and what they are applied to. Each comes before those that speak
/// of the same value.
#[derive(Debug)]
pub(super) struct Bounds {
    parts: Vec<Part>,
    root: usize,
    /// How many parts speak in a row of the same value.
    in_place: usize,
}

#[derive(Debug, Default)]
struct Part {
    /// Applied to the same value.
    same: Vec<usize>,
    members: HashMap<String, usize>,
    /// To any member, as far as can be told without looking at patterns.
    any_member: Vec<usize>,
    prefix: Vec<usize>,
    elements: Vec<usize>,
    /// Looks again at everything that speaks of the same value.
    twice: bool,
    /// What it has to say itself.
    size: u64,
    /// The weight of its patterns: for a text, and for each name of a member.
    pattern: u64,
    name_patterns: u64,
}

/// How often parts are applied to a value.
type Applied = BTreeMap<usize, u64>;

impl Bounds {
    /// # Errors
    /// Says why the schema is too much.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let places = Places::of(schema)?;
        let mut reader = Reader { places, known: HashMap::new(), queue: VecDeque::new() };
        let (parts, root) = sorted(reader.read(schema)?)?;
        let mut bounds = Self { parts, root, in_place: 0 };
        bounds.in_place = bounds.count()?;
        Ok(bounds)
    }

    /// Counts the ways through parts that speak of one value; gives the longest.
    fn count(&self) -> Result<usize, String> {
        let mut known = vec![(1_u64, 1_usize); self.parts.len()];
        let mut longest = 1;
        for (at, part) in self.parts.iter().enumerate().rev() {
            let (mut ways, mut length) = (1_u64, 1);
            for (more, behind) in part.same.iter().filter_map(|to| known.get(*to)) {
                ways = ways.saturating_add(more.saturating_mul(part.times()));
                length = length.max(behind + 1);
            }
            if ways > WAYS || length > IN_PLACE {
                return Err(format!(
                    "one value would be held against more than {WAYS} parts of it, or against \
                     more than {IN_PLACE} in a row"
                ));
            }
            if let Some(slot) = known.get_mut(at) {
                *slot = (ways, length);
            }
            longest = longest.max(length);
        }
        Ok(longest)
    }

    /// What it takes to hold `answer` against the schema, at most.
    pub(super) fn cost(&self, answer: &Value) -> Cost {
        let mut spent = Spent::default();
        match self.spend(answer, &mut spent) {
            None => Cost::TooMuch,
            Some(()) if spent.steps > MUCH => Cost::Much,
            Some(()) => Cost::Little,
        }
    }

    /// Goes through an answer, value by value. `None`: it is too much.
    fn spend(&self, answer: &Value, spent: &mut Spent) -> Option<()> {
        let applied = self.apply(answer, Applied::from([(self.root, 1)]), spent)?;
        let mut around = vec![Level { values: inside(answer), applied }];
        while let Some(level) = around.last_mut() {
            let Some((place, value)) = level.values.next() else {
                around.pop();
                continue;
            };
            let mut applied = Applied::new();
            for (at, times) in &level.applied {
                for to in self.parts.get(*at)?.within(place) {
                    spent.pair(&mut applied, to, *times)?;
                }
            }
            if applied.is_empty() {
                continue;
            }
            let applied = self.apply(value, applied, spent)?;
            around.push(Level { values: inside(value), applied });
            if around.len().saturating_mul(self.in_place) > LEVELS {
                return None;
            }
        }
        Some(())
    }

    /// Counts the steps for one value. Gives all parts that are applied to it.
    fn apply(
        &self,
        value: &Value,
        mut applied: Applied,
        spent: &mut Spent,
    ) -> Option<Vec<(usize, u64)>> {
        let mut all = Vec::with_capacity(applied.len());
        // Parts only lead to later ones, so each is complete when its turn comes.
        while let Some((at, times)) = applied.pop_first() {
            let part = self.parts.get(at)?;
            spent.steps(times.saturating_mul(part.steps(value)))?;
            for to in &part.same {
                spent.pair(&mut applied, *to, times.saturating_mul(part.times()))?;
            }
            all.push((at, times));
        }
        Some(all)
    }
}

/// A value whose inner values are being looked at.
struct Level<'v> {
    values: Box<dyn Iterator<Item = (Place<'v>, &'v Value)> + 'v>,
    applied: Vec<(usize, u64)>,
}

/// Where in another value one is.
#[derive(Clone, Copy)]
enum Place<'v> {
    Name(&'v str),
    Index(usize),
}

fn inside<'v>(value: &'v Value) -> Box<dyn Iterator<Item = (Place<'v>, &'v Value)> + 'v> {
    match value {
        Value::Object(values) => {
            Box::new(values.iter().map(|(name, value)| (Place::Name(name), value)))
        }
        Value::Array(values) => {
            Box::new(values.iter().enumerate().map(|(at, value)| (Place::Index(at), value)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Box::new(std::iter::empty())
        }
    }
}

impl Part {
    fn times(&self) -> u64 {
        if self.twice { 2 } else { 1 }
    }

    /// What is applied to a value within the one that this is applied to.
    fn within(&self, place: Place<'_>) -> impl Iterator<Item = usize> {
        let (own, others) = match place {
            Place::Name(name) => (self.members.get(name), &self.any_member),
            Place::Index(index) => (self.prefix.get(index), &self.elements),
        };
        own.into_iter().chain(others).copied()
    }

    /// What it takes to hold a value against this part alone.
    fn steps(&self, value: &Value) -> u64 {
        let text = |text: &str| 1 + text.len() as u64 / TEXT_STEP;
        let more = match value {
            Value::String(value) => text(value).saturating_mul(1 + self.pattern),
            Value::Array(values) => values.len() as u64,
            Value::Object(values) if self.name_patterns > 0 => {
                let names: u64 = values.keys().map(|name| text(name)).sum();
                names.saturating_mul(self.name_patterns)
            }
            Value::Object(values) => values.len() as u64,
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        };
        self.size.saturating_add(more)
    }
}

/// What was counted so far.
#[derive(Default)]
struct Spent {
    steps: u64,
    pairs: usize,
}

impl Spent {
    fn steps(&mut self, more: u64) -> Option<()> {
        self.steps = self.steps.saturating_add(more);
        (self.steps <= TOO_MUCH).then_some(())
    }

    fn pair(&mut self, applied: &mut Applied, to: usize, times: u64) -> Option<()> {
        let known = applied.entry(to).or_default();
        *known = known.saturating_add(times);
        self.pairs += 1;
        (self.pairs <= PAIRS).then_some(())
    }
}

/// Brings parts into their order. Also gives the new place of the first.
fn sorted(parts: Vec<Part>) -> Result<(Vec<Part>, usize), String> {
    let mut incoming = vec![0_usize; parts.len()];
    for to in parts.iter().flat_map(|part| &part.same) {
        if let Some(count) = incoming.get_mut(*to) {
            *count += 1;
        }
    }
    let free = |(at, count): (usize, &usize)| (*count == 0).then_some(at);
    let mut order: Vec<usize> = incoming.iter().enumerate().filter_map(free).collect();
    let mut next = 0;
    while let Some(part) = order.get(next).and_then(|at| parts.get(*at)) {
        next += 1;
        for to in &part.same {
            let Some(count) = incoming.get_mut(*to) else { continue };
            *count -= 1;
            if *count == 0 {
                order.push(*to);
            }
        }
    }
    if order.len() < parts.len() {
        return Err("a part of it refers back to itself without an end".to_owned());
    }
    let mut places = vec![0_usize; parts.len()];
    for (place, at) in order.iter().enumerate() {
        if let Some(slot) = places.get_mut(*at) {
            *slot = place;
        }
    }
    let mut parts: Vec<(usize, Part)> = places.iter().copied().zip(parts).collect();
    parts.sort_unstable_by_key(|(place, _)| *place);
    let moved = |at: &mut usize| *at = places.get(*at).copied().unwrap_or_default();
    let parts = parts.into_iter().map(|(_, mut part)| {
        let lists = [&mut part.same, &mut part.any_member, &mut part.prefix, &mut part.elements];
        lists.into_iter().flatten().chain(part.members.values_mut()).for_each(moved);
        part
    });
    Ok((parts.collect(), places.first().copied().unwrap_or_default()))
}

/// What references may mean.
struct Places<'a> {
    /// The schema, and its parts with an id of their own.
    resources: Vec<&'a Value>,
    ids: Vec<&'a str>,
    anchors: HashMap<&'a str, Vec<&'a Value>>,
}

impl<'a> Places<'a> {
    /// Goes through the whole text, also where no schema is expected: a reference may make
    /// one of anything.
    fn of(schema: &'a Value) -> Result<Self, String> {
        let mut places = Self { resources: vec![schema], ids: Vec::new(), anchors: HashMap::new() };
        let (mut patterns, mut bytes) = (0_usize, 0_usize);
        let mut note = |pattern: &str| {
            patterns += 1;
            bytes += pattern.len();
            if patterns <= PATTERNS && bytes <= PATTERN_BYTES {
                return Ok(());
            }
            Err(format!(
                "it has more than {PATTERNS} patterns, or more than {} KiB of them",
                PATTERN_BYTES >> 10
            ))
        };
        let mut waiting = vec![schema];
        while let Some(value) = waiting.pop() {
            match value {
                Value::Array(values) => waiting.extend(values),
                Value::Object(fields) => {
                    waiting.extend(fields.values());
                    if let Some(Value::String(pattern)) = fields.get("pattern") {
                        note(pattern)?;
                    }
                    if let Some(Value::Object(patterns)) = fields.get("patternProperties") {
                        patterns.keys().try_for_each(|pattern| note(pattern))?;
                    }
                    places.name(value, fields);
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        Ok(places)
    }

    fn name(&mut self, value: &'a Value, fields: &'a Map<String, Value>) {
        let text = |name| fields.get(name).and_then(Value::as_str);
        for id in [text("$id"), text("id")].into_iter().flatten() {
            match id.strip_prefix('#') {
                Some(anchor) => self.anchors.entry(anchor).or_default().push(value),
                None => self.add(id, value),
            }
        }
        for anchor in [text("$anchor"), text("$dynamicAnchor")].into_iter().flatten() {
            self.anchors.entry(anchor).or_default().push(value);
        }
    }

    fn add(&mut self, id: &'a str, value: &'a Value) {
        self.ids.push(id);
        // The schema itself is there already.
        if self.resources.first().is_none_or(|root| !std::ptr::eq(*root, value)) {
            self.resources.push(value);
        }
    }

    /// Everything that a reference may mean, whichever of the schema's ids it has in it.
    fn find(&self, reference: &str) -> Result<Vec<&'a Value>, String> {
        let (whole, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let last = |id: &'_ str| id.trim_end_matches('#').rsplit('/').next().map(str::to_owned);
        let here = whole.is_empty() || self.ids.iter().any(|id| last(id) == last(whole));
        let fragment = percent_decode(fragment);
        let found: Vec<_> = if fragment.is_empty() || fragment.starts_with('/') {
            self.resources.iter().filter_map(|whole| whole.pointer(&fragment)).collect()
        } else {
            self.anchors.get(fragment.as_str()).cloned().unwrap_or_default()
        };
        // The validator knows the schemas of schemas. They are not looked at here.
        if found.is_empty() || !here || reference.contains("json-schema.org") {
            return Err(format!("it refers to `{reference:.200}`, which it does not have"));
        }
        Ok(found)
    }
}

/// Reads the parts of a schema, each once.
struct Reader<'a> {
    places: Places<'a>,
    known: HashMap<*const Value, usize>,
    queue: VecDeque<(&'a Value, usize)>,
}

impl<'a> Reader<'a> {
    fn read(&mut self, schema: &'a Value) -> Result<Vec<Part>, String> {
        let mut parts = Vec::new();
        self.part(schema, 0);
        while let Some((value, steps)) = self.queue.pop_front() {
            if steps > STEPS {
                return Err(format!("some of it is more than {STEPS} parts away from its root"));
            }
            parts.push(match value {
                Value::Object(fields) => self.fields(fields, steps + 1)?,
                _ => Part::default(),
            });
        }
        Ok(parts)
    }

    /// The number of a part; they are read in the order of their numbers.
    fn part(&mut self, value: &'a Value, steps: usize) -> usize {
        let next = self.known.len();
        *self.known.entry(std::ptr::from_ref(value)).or_insert_with(|| {
            self.queue.push_back((value, steps));
            next
        })
    }

    fn fields(&mut self, fields: &'a Map<String, Value>, steps: usize) -> Result<Part, String> {
        let mut part = Part { size: 1, ..Part::default() };
        for (keyword, value) in fields {
            part.size += match value {
                Value::Array(values) => values.len() as u64,
                Value::Object(values) => values.len() as u64,
                _ => 1,
            };
            match keyword.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    let Some(reference) = value.as_str() else { continue };
                    for target in self.places.find(reference)? {
                        part.same.push(self.part(target, steps));
                    }
                }
                "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => {
                    self.all(value, steps, &mut part.same);
                }
                "dependentSchemas" | "dependencies" => {
                    self.values(value, steps, &mut part.same);
                }
                "properties" => {
                    for (name, schema) in value.as_object().into_iter().flatten() {
                        part.members.insert(name.clone(), self.part(schema, steps));
                    }
                }
                "pattern" => part.pattern = value.as_str().map_or(0, weight),
                "patternProperties" => {
                    let names = value.as_object().into_iter().flat_map(Map::keys);
                    part.name_patterns = names.map(|pattern| weight(pattern)).sum();
                    self.values(value, steps, &mut part.any_member);
                }
                // Names are values without values in them, one for each member.
                "additionalProperties" | "propertyNames" => {
                    self.all(value, steps, &mut part.any_member);
                }
                "prefixItems" => self.all(value, steps, &mut part.prefix),
                "items" if value.is_array() => self.all(value, steps, &mut part.prefix),
                "items" | "additionalItems" | "contains" => {
                    self.all(value, steps, &mut part.elements);
                }
                "unevaluatedProperties" => {
                    part.twice = true;
                    self.all(value, steps, &mut part.any_member);
                }
                "unevaluatedItems" => {
                    part.twice = true;
                    self.all(value, steps, &mut part.elements);
                }
                _ => {}
            }
        }
        Ok(part)
    }

    /// A schema, or a list of them.
    fn all(&mut self, value: &'a Value, steps: usize, to: &mut Vec<usize>) {
        match value {
            Value::Array(values) => {
                to.extend(values.iter().map(|value| self.part(value, steps)));
            }
            _ => to.push(self.part(value, steps)),
        }
    }

    /// Schemas with names.
    fn values(&mut self, value: &'a Value, steps: usize, to: &mut Vec<usize>) {
        for value in value.as_object().into_iter().flat_map(Map::values) {
            to.push(self.part(value, steps));
        }
    }
}

/// How hard a pattern is to a text: one that looks around or back is tried in many ways.
fn weight(pattern: &str) -> u64 {
    let bytes = pattern.as_bytes();
    let looks = bytes.windows(3).any(|at| matches!(at, [b'(', b'?', then] if *then != b':'));
    let back = bytes.windows(2).any(|at| matches!(at, [b'\\', b'1'..=b'9' | b'k']));
    if looks || back { HARD_PATTERN } else { PATTERN }
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
