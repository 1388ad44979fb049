//! Manual pages and completions follow the grammar.

use std::collections::BTreeMap;
use std::path::Path;

use super::Rmq;

fn pages(dir: &Path) -> BTreeMap<String, String> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (
                entry.file_name().to_string_lossy().into_owned(),
                std::fs::read_to_string(entry.path()).unwrap(),
            )
        })
        .collect()
}

#[test]
fn the_manual_pages_are_current() {
    let dir = tempfile::tempdir().unwrap();
    rmq::cli::write_man_pages(dir.path()).unwrap();
    let (fresh, kept) = (pages(dir.path()), pages(Path::new("man")));
    let names = |pages: &BTreeMap<String, String>| pages.keys().cloned().collect::<Vec<_>>();
    let how = "write them anew: rm man/* && cargo run -- man --out man";
    assert_eq!(names(&fresh), names(&kept), "{how}");
    for (name, page) in &fresh {
        assert!(kept[name] == *page, "man/{name} is out of date; {how}");
        let has_examples = page.contains(".SH EXAMPLES\n  rmq ");
        assert!(
            has_examples || !name.ends_with(".1"),
            "man/{name} has no examples"
        );
    }
    for name in ["rmq.1", "rmq-topic-update.1", "rmq-config.5", "rmq-exit-codes.7"] {
        assert!(kept.contains_key(name), "{name}");
    }
}

/// What every command takes stands behind what this one takes.
#[test]
fn own_options_come_first() {
    let page = std::fs::read_to_string("man/rmq-message-send.1").unwrap();
    let synopsis = page
        .split(".SH ")
        .find(|part| part.starts_with("SYNOPSIS"))
        .unwrap();
    let at = |flag: &str| {
        let flag = format!("\\fB{}\\fR", flag.replace('-', "\\-"));
        synopsis
            .find(&flag)
            .unwrap_or_else(|| panic!("{flag}: {synopsis}"))
    };
    for own in ["--delay", "--at", "--order-key", "--rate", "--group"] {
        assert!(
            at(own) < at("--namesrv") && at(own) < at("--dry-run"),
            "{own}: {synopsis}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shell_gets_a_completion_script() {
    let home = tempfile::tempdir().unwrap();
    let rmq = Rmq::new("127.0.0.1:1", home.path());
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = rmq.run(&["completion", shell]).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{shell}");
        // The script asks the binary itself, which knows its grammar.
        assert!(ran.stdout.contains("COMPLETE"), "{shell}");
    }
    let script = rmq.run(&["completion", "bash"]).await.stdout;
    let path = home.path().join("rmq.bash");
    std::fs::write(&path, script).unwrap();
    // Where there is no bash there is nothing to check.
    if let Ok(status) = std::process::Command::new("bash").arg("-n").arg(&path).status() {
        assert!(status.success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn help_and_version_need_no_server() {
    let home = tempfile::tempdir().unwrap();
    let rmq = Rmq::new("127.0.0.1:1", home.path());
    for args in [
        &["--help"][..],
        &["topic", "update", "-h"],
        &["help", "group", "lag"],
        &["version"],
        &["--version"],
    ] {
        let ran = rmq.run(args).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}");
        assert!(ran.stdout.contains("rmq"), "{args:?}");
    }
}
