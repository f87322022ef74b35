//! What ibeam answers, in the types of `async-openai`: every kind of reply that the
//! scenarios bring about, whole and event by event.
//!
//! Those types know no unknown event and no unknown kind of item, but they skip fields they
//! do not have, and some of their enums take the first form that fits. So what they read is
//! written again and compared: nothing of it may differ from what we sent.

mod gate;
mod replies;
mod responses;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Reads a value in a type of the oracle's and checks that it was understood.
#[track_caller]
fn read<T: DeserializeOwned + Serialize>(ours: &Value) -> T {
    let kind = std::any::type_name::<T>();
    let theirs: T = serde_json::from_value(ours.clone())
        .unwrap_or_else(|error| panic!("{kind}: {error}\n{ours}"));
    let again = serde_json::to_value(&theirs).unwrap();
    if let Some(place) = differs(&again, ours) {
        panic!("{kind} read {place} differently:\nours   {ours}\ntheirs {again}");
    }
    theirs
}

/// Where the oracle's reading has something that we did not say. It may have less: fields
/// that it does not know. Defaults that it adds for what is absent are no difference.
fn differs(theirs: &Value, ours: &Value) -> Option<String> {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => theirs.iter().find_map(|(name, value)| {
            let place = match ours.get(name) {
                Some(own) => differs(value, own)?,
                None if value.is_null() => return None,
                None => String::from(" (absent)"),
            };
            Some(format!(".{name}{place}"))
        }),
        (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
            let mut pairs = theirs.iter().zip(ours).enumerate();
            pairs.find_map(|(at, (theirs, ours))| Some(format!("[{at}]{}", differs(theirs, ours)?)))
        }
        _ if theirs == ours => None,
        _ => Some(format!(": {theirs} for {ours}")),
    }
}

#[test]
fn differences_are_found_and_named() {
    use serde_json::json;
    let ours = json!({ "a": [{ "b": 1, "unknown": 2 }], "c": null });
    assert_eq!(differs(&json!({ "a": [{ "b": 1 }], "c": null, "d": null }), &ours), None);
    assert_eq!(differs(&json!({ "a": [{ "b": 2 }] }), &ours).as_deref(), Some(".a[0].b: 2 for 1"));
    assert_eq!(differs(&json!({ "d": 1 }), &ours).as_deref(), Some(".d (absent)"));
    assert!(differs(&json!({ "a": [] }), &ours).is_some());
}
