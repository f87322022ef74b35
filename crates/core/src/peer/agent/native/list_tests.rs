use super::*;

/// `a b/ b/c`: every file and directory below the root, as paths.
fn shape(node: &LsDirectoryTreeNode) -> String {
    fn walk(node: &LsDirectoryTreeNode, out: &mut Vec<String>) {
        for file in &node.children_files {
            out.push(format!("{}/{}", node.abs_path, file.name));
        }
        for dir in &node.children_dirs {
            out.push(format!("{}/", dir.abs_path));
            walk(dir, out);
        }
    }
    let mut out = Vec::new();
    walk(node, &mut out);
    out.join(" ")
}

#[test]
fn listings_of_every_kind_become_trees() {
    let nested = "/w/Cargo.toml /w/src/ /w/src/main.rs /w/src/deep/ /w/src/deep/x.rs";
    let flat = "/w/a b.txt /w/src/";
    for (text, want) in [
        ("/w/\n  src/\n    deep/\n      x.rs\n    main.rs\n  Cargo.toml\n", nested),
        (
            "- /w/\n  - src/\n    - deep/\n      - x.rs\n    - main.rs\n  - Cargo.toml\n\nNOTE: be careful",
            nested,
        ),
        ("/w\n├── Cargo.toml\n└── src/\n    ├── deep/\n    │   └── x.rs\n    └── main.rs", nested),
        ("/w/Cargo.toml\n/w/src/main.rs\n/w/src/deep/x.rs", nested),
        ("Cargo.toml\nsrc/main.rs\nsrc/deep/x.rs", nested),
        ("Absolute path: /w\nCargo.toml\nsrc/\n  main.rs\n  deep/\n    x.rs\n", nested),
        ("a b.txt\nsrc/\n", flat),
        ("/w/src/\n/w/a b.txt", flat),
        ("/elsewhere/w/\n  src/\n  a b.txt", flat),
        (
            "<path>/w</path>\n<type>directory</type>\n<entries>\na b.txt\nsrc/\n\n(2 entries)\n</entries>",
            flat,
        ),
        ("Directory listing for /w:\n[DIR] src\na b.txt", flat),
        (
            "total 8\ndrwxr-xr-x 2 me me 4096 Jan  1 10:00 .\ndrwxr-xr-x 2 me me 4096 Jan  1 10:00 ..\n\
             drwxr-xr-x 2 me me 4096 Jan  1 10:00 src\n-rw-r--r-- 1 me me    3 Jan  1 10:00 a b.txt\n",
            flat,
        ),
        ("", ""),
        ("something that nobody understands", "/w/something that nobody understands"),
    ] {
        assert_eq!(shape(&tree("/w", text)), want, "{text}");
    }
}

#[test]
fn files_are_counted_by_extension() {
    let root = tree("/w", "a.rs\nsrc/b.rs\nsrc/c.md\n.hidden\nempty/\n");
    assert_eq!(root.num_files, 4);
    let counts = &root.full_subtree_extension_counts;
    assert_eq!((counts.get(".rs"), counts.get(".md"), counts.len()), (Some(&2), Some(&1), 2));
    let [src, empty] = &root.children_dirs[..] else { panic!() };
    assert!(root.children_were_processed && src.children_were_processed);
    assert!(!empty.children_were_processed, "nobody looked into it");
}

#[test]
fn name_that_begins_like_the_directory_is_kept_whole() {
    assert_eq!(shape(&tree(".", ".hidden\n./a\nsrc/")), "./.hidden ./a ./src/");
    assert_eq!(shape(&tree("/", "/etc/hosts\nwww")), "//www /etc/ /etc/hosts");
}

#[test]
fn depth_of_the_tree_is_limited() {
    let root = tree("/w", &"a/".repeat(100_000));
    let mut depth = 0;
    let mut here = &root;
    while let Some(next) = here.children_dirs.first() {
        (here, depth) = (next, depth + 1);
    }
    assert_eq!(depth, DEPTH);
}
