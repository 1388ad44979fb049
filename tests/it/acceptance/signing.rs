//! A Java broker that authenticates and authorizes: requests are signed, rights are obeyed, refusals have their code.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{Checks, same};
use crate::support::ports::Block;
use crate::support::session::Session;
use crate::support::{java, local, rmq, scratch, text};

const FIRST: &str = "{\"username\":\"rootuser\",\"password\":\"root-secret\"}";
const INNER: &str = "{\"accessKey\":\"rootuser\",\"secretKey\":\"root-secret\"}";

fn secret(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    path
}

#[test]
fn a_java_broker_that_asks_who_we_are() {
    let Some(peers) = java::peers("a_java_broker_that_asks_who_we_are") else {
        return;
    };
    let (dir, ports) = (scratch(), Block::take());
    let namesrv = local(ports.namesrv());
    let _namesrv = peers.namesrv(dir.path(), ports.namesrv());
    let mut settings = java::broker_settings(dir.path(), &namesrv, ports.broker());
    for (key, value) in [
        ("authenticationEnabled", "true"),
        (
            "authenticationProvider",
            "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
        ),
        (
            "authenticationMetadataProvider",
            "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
        ),
        ("authorizationEnabled", "true"),
        (
            "authorizationProvider",
            "org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider",
        ),
        (
            "authorizationMetadataProvider",
            "org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider",
        ),
        ("initAuthenticationUser", FIRST),
        ("innerClientAuthenticationCredentials", INNER),
    ] {
        settings = java::with(settings, key, value);
    }
    settings = java::with(
        settings,
        "authConfigPath",
        &dir.path().join("auth").display().to_string(),
    );
    let _broker = peers.broker(dir.path(), &settings);
    // The tool signs when it finds this file.
    std::fs::create_dir_all(dir.path().join("conf")).expect("a directory");
    std::fs::write(
        dir.path().join("conf/tools.yml"),
        "accessKey: rootuser\nsecretKey: root-secret\n",
    )
    .expect("a file");
    let mut session = Session::start(peers, dir.path());
    let home = dir.path().join("rmq-home");
    std::fs::create_dir_all(&home).expect("a directory");
    let root = secret(&home, "root", "root-secret\n");
    let wrong = secret(&home, "wrong", "no-secret\n");
    let alice = secret(&home, "alice", "alice-secret\n");
    let mut checks = Checks::new("a_java_broker_that_asks_who_we_are");

    let run = |line: &str| rmq::run(&home, &namesrv, &line.split(' ').collect::<Vec<_>>());
    let signed = |key: &str, file: &Path, line: &str| {
        run(&format!(
            "{line} --access-key {key} --secret-key-file {}",
            file.display()
        ))
    };
    let as_root = |line: &str| signed("rootuser", &root, line);
    let mut ends = |what: &str, ran: &rmq::Ran, code: i32, part: &str| {
        let right = ran.code == code && (ran.err.contains(part) || ran.out.contains(part));
        checks.check(what, if right { Ok(()) } else { Err(format!("{ran:?}")) });
    };
    for line in [
        "topic create Orders --queues 4 --yes",
        "group list",
        "broker get-config broker-a",
        "topic get TBW102",
    ] {
        ends(&format!("unsigned: {line}"), &run(line), 5, "NO_PERMISSION");
        ends(
            &format!("wrong secret: {line}"),
            &signed("rootuser", &wrong, line),
            5,
            "NO_PERMISSION",
        );
        ends(
            &format!("unknown account: {line}"),
            &signed("nobody", &wrong, line),
            5,
            "NO_PERMISSION",
        );
    }
    ends(
        "signed: topic create",
        &as_root("topic create Orders --queues 4 --yes"),
        0,
        "",
    );
    ends(
        "signed: topic create",
        &as_root("topic create Secret --queues 4 --yes"),
        0,
        "",
    );
    ends("signed: group create", &as_root("group create CG --yes"), 0, "");
    ends("signed: broker list", &as_root("broker list"), 0, "ok");
    ends("signed: doctor", &as_root("doctor --checks BR,NS -o name"), 0, "");
    ends(
        "signed: broker set-config",
        &as_root("broker set-config broker-a fileReservedTime=48 --yes"),
        0,
        "ok",
    );
    let user = format!("user create alice --password-from file:{} --yes", alice.display());
    ends("signed: user create", &as_root(&user), 0, "");
    ends("signed: user list", &as_root("user list"), 0, "alice");
    ends(
        "signed: acl create",
        &as_root("acl create User:alice --resource Topic:Orders --action Pub,Get --decision allow --yes"),
        0,
        "",
    );
    ends("signed: acl list", &as_root("acl list"), 0, "Topic:Orders");
    let told = session
        .mqadmin(
            &namesrv,
            &["getAcl", "-b", &local(ports.broker()), "-s", "User:alice"],
        )
        .text();
    let agreed = told.contains("Topic:Orders") && told.contains("Allow");
    ends(
        "acl check allows",
        &as_root("acl check User:alice --resource Topic:Orders --action Pub"),
        0,
        "",
    );
    let as_alice = |line: &str| signed("alice", &alice, line);
    // The broker keeps decisions for a moment: the right is new.
    ends(
        "alice sends where she may",
        &as_alice("message send --topic Orders --body x --key K"),
        0,
        "SEND_OK",
    );
    ends(
        "alice sends where she may not",
        &as_alice("message send --topic Secret --body x"),
        5,
        "NO_PERMISSION",
    );
    ends(
        "alice makes no topic",
        &as_alice("topic create Mine --yes"),
        5,
        "NO_PERMISSION",
    );
    ends("alice lists no users", &as_alice("user list"), 5, "NO_PERMISSION");

    // The same out of a context, and out of the environment's file.
    for line in [
        format!("config set secure namesrv {namesrv}"),
        "config set secure access_key rootuser".to_owned(),
        format!("config set secure secret_key_file {}", root.display()),
    ] {
        ends(
            &line,
            &rmq::run(&home, &namesrv, &line.split(' ').collect::<Vec<_>>()),
            0,
            "",
        );
    }
    ends("by context", &run("group list --context secure"), 0, "CG");
    ends(
        "by context: mqadmin line",
        &run("--context secure mqadmin --no-hint getUser -b broker-a -u alice"),
        0,
        "alice",
    );
    // The whole cluster as a file: without passwords, no change to where it comes from, and the same again.
    let exported = as_root("export all");
    ends("export: users", &exported, 0, "[user.alice]");
    ends("export: rules", &exported, 0, "resource = \"Topic:Orders\"");
    let file = secret(&home, "cluster.toml", &exported.out);
    let line = format!("diff -f {}", file.display());
    ends("export: it is as the cluster", &as_root(&line), 0, "");
    let line = format!("apply -f {} --prune --yes", file.display());
    ends("export: applied", &as_root(&line), 0, "");
    let again = as_root("export all");
    ends("signed: user delete", &as_root("user delete alice --yes"), 0, "");
    ends(
        "alice is gone",
        &as_alice("message send --topic Orders --body x"),
        5,
        "NO_PERMISSION",
    );
    let is_right = exported.out == again.out && !exported.out.contains("secret");
    checks.check(
        "exported again byte for byte, without a password",
        if is_right {
            Ok(())
        } else {
            Err(format!("{exported:?} {again:?}"))
        },
    );
    checks.check(
        "mqadmin agrees on the rule",
        if agreed { Ok(()) } else { Err(told) },
    );
    let listed = text::rows(
        &session
            .mqadmin(&namesrv, &["listUser", "-b", &local(ports.broker())])
            .out,
    );
    let names: Vec<String> = listed
        .iter()
        .filter(|row| row.len() == 4)
        .map(|row| row[0].clone())
        .collect();
    checks.check(
        "mqadmin agrees on the users",
        same(&names, &vec!["rootuser".to_owned()]),
    );
    checks.end();
}
