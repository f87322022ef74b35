use serde_json::value::RawValue;

use super::*;
use crate::wire::{responses::tools::CallForm, testing::finishes};

const MANY: usize = 100_000;

#[test]
fn selecting_tools_takes_linear_time() {
    finishes("a selection of 100,000 out of 100,000 tools", || {
        let (mut catalogue, mut tools) = (Catalogue::default(), Vec::new());
        for number in 0..MANY {
            let (name, offered) = (format!("t{number}"), format!("a__t{number}"));
            tools.push(Tool { name: offered.clone(), description: String::new(), schema: None });
            let namespace = Some("a".to_owned());
            catalogue.push(CatalogueEntry { offered, name, namespace, form: CallForm::Function });
        }
        let selected = |number| format!(r#"{{"type":"function","name":"t{number}"}}"#);
        let selected: Vec<String> = (1..MANY).map(selected).collect();
        let list = selected.join(",");
        let choice = format!(r#"{{"type":"allowed_tools","mode":"auto","tools":[{list}]}}"#);
        let choice = RawValue::from_string(choice).unwrap();
        let decoded = decode(Some(&choice), &catalogue, &mut tools).unwrap();
        assert_eq!((decoded, tools.len()), (ToolChoice::Auto, MANY - 1));
    });
}

/// Each in a namespace of its own.
#[test]
fn tools_are_looked_up_by_name_in_constant_time() {
    finishes("100,000 tools of one name", || {
        let mut catalogue = Catalogue::default();
        for number in 0..MANY {
            catalogue.push(CatalogueEntry {
                offered: format!("n{number}__read"),
                name: "read".to_owned(),
                namespace: Some(format!("n{number}")),
                form: CallForm::Function,
            });
        }
        let find = |namespace: Option<&str>| {
            catalogue.named(namespace, "read").map(|entry| entry.offered.as_str())
        };
        for number in 0..MANY {
            let (namespace, offered) = (format!("n{number}"), format!("n{number}__read"));
            assert_eq!(find(Some(&namespace)), Some(offered.as_str()));
        }
        assert_eq!(find(None), Some("n0__read"), "the first, when no namespace is given");
        assert_eq!(find(Some("other")), None);
    });
}
