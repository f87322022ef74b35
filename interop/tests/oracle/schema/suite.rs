//! The official JSON-Schema-Test-Suite. The step `json-schema` fetches it and says where it is.

use std::{collections::BTreeSet, fs, path::Path};

use ibeam_core::controls::JsonSchema;
use serde_json::Value;

/// The folder with the folders of the drafts.
const SUITE: &str = "IBEAM_JSON_SCHEMA_SUITE";

const DRAFTS: [(&str, &str); 5] = [
    ("draft4", "http://json-schema.org/draft-04/schema#"),
    ("draft6", "http://json-schema.org/draft-06/schema#"),
    ("draft7", "http://json-schema.org/draft-07/schema#"),
    ("draft2019-09", "https://json-schema.org/draft/2019-09/schema"),
    ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
];

/// What is optional and supported, in the drafts that have it. Left out are `format/`,
/// `format-assertion` and `content`, which are annotations here, and `cross-draft`, where
/// everything is fetched.
const OPTIONAL: [&str; 12] = [
    "anchor.json",
    "bignum.json",
    "dependencies-compatibility.json",
    "dynamicRef.json",
    "ecmascript-regex.json",
    "float-overflow.json",
    "id.json",
    "no-schema.json",
    "non-bmp-regex.json",
    "refOfUnknownKeyword.json",
    "unknownKeyword.json",
    "zeroTerminatedFloats.json",
];

/// Groups of tests whose schema we refuse, in every draft that has them, and the words with which
/// we do. An empty name stands for all groups of the file.
const REFUSED: &[(&str, &str, &str)] = &[
    ("refRemote.json", "", NOTHING_IS_FETCHED),
    (
        "dynamicRef.json",
        "strict-tree schema, guards against misspelled properties",
        NOTHING_IS_FETCHED,
    ),
    (
        "dynamicRef.json",
        "tests for implementation dynamic anchor and reference link",
        NOTHING_IS_FETCHED,
    ),
    (
        "dynamicRef.json",
        "$ref and $dynamicAnchor are independent of order - $defs first",
        NOTHING_IS_FETCHED,
    ),
    (
        "dynamicRef.json",
        "$ref and $dynamicAnchor are independent of order - $ref first",
        NOTHING_IS_FETCHED,
    ),
    ("dynamicRef.json", "$ref to $dynamicRef finds detached $dynamicAnchor", NOTHING_IS_FETCHED),
    ("definitions.json", "validate definition against metaschema", NO_META_SCHEMAS),
    ("defs.json", "validate definition against metaschema", NO_META_SCHEMAS),
    ("ref.json", "remote ref, containing refs itself", NO_META_SCHEMAS),
    ("vocabulary.json", "", NO_OWN_DIALECTS),
];
const NOTHING_IS_FETCHED: &str = "does not fetch schemas";
const NO_META_SCHEMAS: &str = "json-schema.org/draft";
const NO_OWN_DIALECTS: &str = "not one of the supported drafts";

/// How many tests of the pinned suite there are for schemas that we do not refuse.
const TESTS: usize = 5_284;

struct Tally {
    run: usize,
    wrong: Vec<String>,
    /// Entries of `REFUSED` that were met.
    met: BTreeSet<usize>,
}

#[test]
#[ignore = "the step json-schema fetches the suite"]
fn the_official_suite_passes() {
    let suite = std::env::var(SUITE).expect("the step json-schema sets it");
    let mut tally = Tally { run: 0, wrong: Vec::new(), met: BTreeSet::new() };
    let mut optional = BTreeSet::new();
    for (draft, dialect) in DRAFTS {
        let folder = Path::new(&suite).join(draft);
        let mut files: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        for name in OPTIONAL {
            let file = folder.join("optional").join(name);
            if file.exists() {
                optional.insert(name);
                files.push(file);
            }
        }
        for file in files {
            tally.file(&file, dialect);
        }
    }
    assert!(tally.wrong.is_empty(), "{}", tally.wrong.join("\n"));
    assert_eq!(tally.run, TESTS, "the suite is pinned, so the number of its tests is known");
    assert_eq!(tally.met.len(), REFUSED.len(), "the suite has no such group any more");
    assert_eq!(optional.len(), OPTIONAL.len(), "the suite has no such file any more");
}

impl Tally {
    fn file(&mut self, file: &Path, dialect: &str) {
        let name = file.file_name().unwrap().to_str().unwrap();
        let groups: Vec<Value> = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        for group in groups {
            let title = group["description"].as_str().unwrap();
            let place = format!("{}: {title}", file.display());
            let refused = REFUSED.iter().position(|(in_file, in_group, _)| {
                name == *in_file && (in_group.is_empty() || title == *in_group)
            });
            let schema = JsonSchema::compile(&group["schema"].to_string(), dialect);
            match (schema, refused) {
                (Ok(schema), None) => self.group(&schema, &group, &place),
                (Err(what), Some(at)) if what.contains(REFUSED[at].2) => {
                    self.met.insert(at);
                }
                (Ok(_), Some(_)) => self.wrong.push(format!("{place}: not refused any more")),
                (Err(what), _) => self.wrong.push(format!("{place}: refused: {what}")),
            }
        }
    }

    fn group(&mut self, schema: &JsonSchema, group: &Value, place: &str) {
        for test in group["tests"].as_array().unwrap() {
            self.run += 1;
            let found = schema.check(&test["data"].to_string());
            if found.is_ok() != test["valid"] {
                self.wrong.push(format!("{place}: {}: {found:?}", test["description"]));
            }
        }
    }
}
