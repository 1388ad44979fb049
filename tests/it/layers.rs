//! The arrows of `src/lib.rs` hold: every `crate::x` path under `src/` is an edge of the table below.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Layer -> the layers it may name. `serve` is `cli/serve.rs`, the only file of `cli` that starts roles.
const ALLOWED: &[(&str, &[&str])] = &[
    ("fields", &[]),
    ("replace", &[]),
    ("config_file", &["fields", "replace"]),
    ("telemetry", &[]),
    ("protocol", &["fields"]),
    ("store", &["fields", "protocol", "replace"]),
    ("remoting", &["fields", "protocol"]),
    ("inspect", &["fields", "protocol", "store"]),
    ("client", &["fields", "protocol", "remoting", "replace"]),
    (
        "namesrv",
        &["fields", "config_file", "protocol", "remoting", "replace"],
    ),
    (
        "broker",
        &["fields", "config_file", "protocol", "remoting", "store"],
    ),
    ("tui", &["fields", "telemetry", "protocol", "client", "inspect"]),
    (
        "cli",
        &[
            "fields",
            "replace",
            "telemetry",
            "protocol",
            "client",
            "inspect",
            "tui",
        ],
    ),
    (
        "serve",
        &[
            "fields",
            "config_file",
            "telemetry",
            "protocol",
            "client",
            "tui",
            "namesrv",
            "broker",
            "store",
            "cli",
        ],
    ),
    ("main", &["cli"]),
];

/// Words that the pure layers must not contain outside their tests.
const FORBIDDEN_IN_PURE: &[&str] = &["std::net::Tcp", "std::fs", "tokio::"];

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("src is readable") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// The code of a file without its unit tests and comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("source is UTF-8");
    let text = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines()
        .filter(|l| !l.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn layer(path: &Path) -> String {
    let path = path.strip_prefix("src").unwrap_or(path);
    if path == Path::new("cli/serve.rs") || path.starts_with("cli/serve") {
        return "serve".into();
    }
    let first = path
        .components()
        .next()
        .expect("a part")
        .as_os_str()
        .to_string_lossy()
        .into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// Names after `crate::` (also inside `crate::{a, b}`) and, in the binary, after `rmq::`.
fn named_layers(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for prefix in ["crate::", "rmq::"] {
        for (at, _) in code.match_indices(prefix) {
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
                continue;
            }
            let rest = &code[at + prefix.len()..];
            let group = rest.strip_prefix('{').map(|r| r.split('}').next().unwrap_or(r));
            for part in group.map_or_else(|| vec![rest], |g| g.split(',').collect()) {
                let name: String = part
                    .trim()
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect();
                found.push(name);
            }
        }
    }
    found
}

#[test]
fn layers_point_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut files = Vec::new();
    sources(Path::new("src"), &mut files);
    assert!(files.len() > 10, "the sources were found");
    let mut wrong = Vec::new();
    for file in &files {
        let own = layer(file);
        if own == "lib" {
            continue;
        }
        let Some(may) = allowed.get(own.as_str()) else {
            wrong.push(format!("{}: layer `{own}` is not in the table", file.display()));
            continue;
        };
        for name in named_layers(&code(file)) {
            let is_layer = allowed.contains_key(name.as_str());
            let own_tree = name == own || (own == "serve" && name == "cli");
            let mounts_serve = own == "cli" && name == "serve";
            if is_layer && !own_tree && !mounts_serve && !may.contains(&name.as_str()) {
                wrong.push(format!("{}: `{own}` names `{name}`", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "layering:\n{}", wrong.join("\n"));
}

#[test]
fn protocol_and_formats_do_no_io() {
    let mut files = Vec::new();
    sources(Path::new("src/protocol"), &mut files);
    if Path::new("src/store/format").exists() {
        sources(Path::new("src/store/format"), &mut files);
    }
    for file in files {
        let code = code(&file);
        for word in FORBIDDEN_IN_PURE {
            assert!(!code.contains(word), "{} names {word}", file.display());
        }
    }
}

#[test]
fn unsafe_stands_in_one_file() {
    let mut files = Vec::new();
    sources(Path::new("src"), &mut files);
    for file in files {
        let has = code(&file)
            .lines()
            .any(|l| l.contains("unsafe {") || l.contains("unsafe fn") || l.contains("allow(unsafe_code"));
        assert!(
            !has || file == Path::new("src/store/segments.rs"),
            "unsafe in {}",
            file.display()
        );
    }
}

#[test]
fn server_roles_start_no_processes() {
    let mut files = Vec::new();
    for dir in ["src/broker", "src/namesrv", "src/store", "src/remoting"] {
        sources(Path::new(dir), &mut files);
    }
    for file in files {
        assert!(
            !code(&file).contains("process::Command"),
            "{} starts a process",
            file.display()
        );
    }
}
