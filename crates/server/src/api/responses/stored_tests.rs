use super::*;

fn items(ids: &[&str]) -> Vec<Box<RawValue>> {
    let item = |id: &&str| RawValue::from_string(format!(r#"{{"id":"{id}"}}"#)).unwrap();
    ids.iter().map(item).collect()
}

fn page(words: &[(&str, &str)]) -> Result<ItemPage, TurnError> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    ItemPage::of(&words.iter().map(owned).collect::<Vec<_>>())
}

fn cut(words: &[(&str, &str)]) -> String {
    let page = page(words).unwrap().cut(items(&["a", "b", "c"])).unwrap();
    serde_json::to_string(&page).unwrap()
}

#[test]
fn input_items_are_paginated_newest_first() {
    assert_eq!(
        cut(&[]),
        r#"{"object":"list","data":[{"id":"c"},{"id":"b"},{"id":"a"}],"first_id":"c","last_id":"a","has_more":false}"#
    );
    assert_eq!(
        cut(&[("order", "asc"), ("limit", "2"), ("include[]", "anything")]),
        r#"{"object":"list","data":[{"id":"a"},{"id":"b"}],"first_id":"a","last_id":"b","has_more":true}"#
    );
    assert_eq!(
        cut(&[("order", "asc"), ("limit", "2"), ("after", "b")]),
        r#"{"object":"list","data":[{"id":"c"}],"first_id":"c","last_id":"c","has_more":false}"#
    );
    assert_eq!(
        cut(&[("after", "a")]),
        r#"{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false}"#
    );
}

#[test]
fn invalid_page_parameters_are_refused() {
    for (name, value) in [("limit", "0"), ("limit", "101"), ("limit", "x"), ("order", "up")] {
        let failure = page(&[(name, value)]).unwrap_err();
        assert_eq!((failure.code, failure.param.as_deref()), (ErrorCode::InvalidValue, Some(name)));
    }
    let failure = page(&[("after", "z")]).unwrap().cut(items(&["a"])).unwrap_err();
    assert_eq!(failure.param.as_deref(), Some("after"));
}
