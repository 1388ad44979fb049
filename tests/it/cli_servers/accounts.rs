//! Users and access rules in the file of `rmq export`, `apply` and `diff`.

use super::*;

const ALICE: &str = "alice-never-shown";
const BOB: &str = "bob-never-shown";

/// Two brokers of one cluster that keep users, or do not.
struct Two {
    keepers: [Arc<Keeper>; 2],
    listeners: [Listener; 2],
    rmq: Rmq,
    home: tempfile::TempDir,
}

impl Two {
    async fn start(second_keeps_none: bool) -> Self {
        let home = tempfile::tempdir().unwrap();
        let keepers = [
            Arc::new(Keeper::default()),
            Arc::new(Keeper {
                keeps_none: second_keeps_none,
                ..Keeper::default()
            }),
        ];
        let free: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
        let first = Listener::start(free, keepers[0].clone()).await.unwrap();
        let second = Listener::start(free, keepers[1].clone()).await.unwrap();
        keepers[0].addr.set(first.addr().to_string()).unwrap();
        keepers[0].other.set(second.addr().to_string()).unwrap();
        let rmq = Rmq::new(&first.addr().to_string(), home.path());
        Self {
            keepers,
            listeners: [first, second],
            rmq,
            home,
        }
    }

    fn path(&self, name: &str) -> String {
        self.home.path().join(name).display().to_string()
    }

    /// Runs a line with both passwords in its environment. Neither is ever shown.
    async fn run(&self, line: &str) -> Ran {
        let mut command = self.rmq.command(&line.split(' ').collect::<Vec<_>>());
        command.env("ALICE_PW", ALICE).env("BOB_PW", BOB);
        let ran = self.rmq.finish(command).await;
        for secret in [ALICE, BOB] {
            assert!(
                !ran.stdout.contains(secret) && !ran.stderr.contains(secret),
                "{ran:?}"
            );
        }
        ran
    }

    async fn ok(&self, line: &str) -> Ran {
        let ran = self.run(line).await;
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        ran
    }

    async fn export(&self) -> String {
        self.ok("export all").await.stdout
    }

    fn names(&self, n: usize) -> Vec<String> {
        let users = self.keepers[n].users.lock().unwrap();
        users.iter().filter_map(|user| user.username.clone()).collect()
    }

    async fn stop(self) {
        for listener in self.listeners {
            listener.stop(Duration::ZERO).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_rules_are_exported_applied_and_exported_again_byte_for_byte() {
    let two = Two::start(false).await;
    for line in [
        "user create alice --password-from env:ALICE_PW --yes",
        "user create root --type super --password-from env:BOB_PW --yes",
        "user update alice --status disable --broker other --yes",
        "acl create alice --resource Topic:Orders --action Sub,Pub --decision allow --yes",
        "acl create alice --resource Group:CG_* --action Sub --decision deny --source-ip 10.0.0.0/8 --broker keeper --yes",
    ] {
        two.ok(line).await;
    }
    let first = two.export().await;
    assert_eq!(
        first,
        r#"api = "rmq/v1"
cluster = "C"

[user.alice]
type = "normal"

[user.alice.broker.keeper]
status = "enable"

[user.alice.broker.other]
status = "disable"

[user.root]
type = "super"
status = "enable"

[[acl]]
subject = "User:alice"
resource = "Group:CG_*"
actions = ["Sub"]
decision = "deny"
source_ips = ["10.0.0.0/8"]

[acl.broker.keeper]

[[acl]]
subject = "User:alice"
resource = "Topic:Orders"
actions = ["Pub", "Sub"]
decision = "allow"
source_ips = []
"#
    );
    let file = two.path("first.toml");
    std::fs::write(&file, &first).unwrap();
    let nothing = two.ok(&format!("apply -f {file} --prune --yes")).await;
    assert_eq!(nothing.stdout, "", "{nothing:?}");
    two.ok(&format!("diff -f {file}")).await;
    assert_eq!(two.export().await, first);

    // All gone from one broker: the file brings it back, once it says where the password is.
    two.ok("user delete alice --broker other --yes").await;
    two.ok("acl delete alice --broker keeper --yes").await;
    let differs = two.run(&format!("diff -f {file} -o json")).await;
    assert_eq!(differs.code, 10, "{differs:?}");
    let told: Vec<String> = items(&differs)
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().unwrap().to_owned();
            format!(
                "{}{} {} {}",
                text("op"),
                text("kind"),
                text("name"),
                text("target")
            )
        })
        .collect();
    for wanted in [
        "+user alice other",
        "+acl User:alice Group:CG_* keeper",
        "+acl User:alice Topic:Orders keeper",
    ] {
        assert!(told.iter().any(|row| row == wanted), "{wanted}: {told:?}");
    }
    let without = two.run(&format!("apply -f {file} --yes")).await;
    assert_eq!(without.code, 9, "{without:?}");
    assert!(without.stderr.contains("password_from"), "{without:?}");
    assert_eq!(two.names(1), ["root"], "nothing was changed");

    let pointed = first.replace(
        "[user.alice]\n",
        "[user.alice]\npassword_from = \"env:ALICE_PW\"\n",
    );
    std::fs::write(&file, &pointed).unwrap();
    let applied = two.ok(&format!("apply -f {file} --yes")).await;
    assert_eq!(two.export().await, first);
    let alice = two.keepers[1].users.lock().unwrap().clone();
    let alice = alice
        .iter()
        .find(|user| user.username.as_deref() == Some("alice"))
        .unwrap();
    assert_eq!(alice.password.as_deref(), Some(ALICE));
    // The way back: what was made goes, rules before their user.
    for line in undo(&applied).split(" && rmq ") {
        two.ok(&format!("{} --yes", line.replace('\'', ""))).await;
    }
    assert_eq!(two.names(1), ["root"]);
    two.ok(&format!("apply -f {file} --yes")).await;

    // Another password is a change, and only that.
    let other = pointed.replace("env:ALICE_PW", "env:BOB_PW");
    std::fs::write(&file, &other).unwrap();
    let password = two.ok(&format!("apply -f {file} --yes -o json")).await;
    let fields: Vec<Value> = items(&password).iter().map(|row| row["field"].clone()).collect();
    assert_eq!(fields, ["user alice password", "user alice password"]);
    let absent = other.replace("env:BOB_PW", "env:NOBODY_SET_THIS");
    std::fs::write(&file, &absent).unwrap();
    let unread = two.run(&format!("apply -f {file} --yes")).await;
    assert_eq!(unread.code, 2, "{unread:?}");
    assert!(
        unread.stderr.contains("alice") && unread.stderr.contains("NOBODY_SET_THIS"),
        "{unread:?}"
    );
    let compared = two.ok(&format!("diff -f {file}")).await;
    assert!(compared.stderr.contains("not compared"), "{compared:?}");

    // What the file lacks goes only when asked, and a super user never.
    std::fs::write(
        &file,
        "api = \"rmq/v1\"\n[user.bob]\npassword_from = \"env:BOB_PW\"\n[[acl]]\nsubject = \"bob\"\nresource = \"topic:B\"\nactions = [\"pub\"]\ndecision = \"allow\"\n",
    )
    .unwrap();
    let kept = two.ok(&format!("apply -f {file} --yes")).await;
    assert!(kept.stdout.contains("undo: "), "{kept:?}");
    assert_eq!(two.names(0), ["alice", "root", "bob"]);
    two.ok(&format!("apply -f {file} --prune --yes")).await;
    assert_eq!(
        (two.names(0), two.names(1)),
        (
            vec!["root".into(), "bob".into()],
            vec!["root".into(), "bob".into()]
        )
    );
    let now = two.export().await;
    assert!(
        now.contains("\"Topic:B\"") && !now.contains("User:alice"),
        "{now}"
    );
    two.stop().await;
}

/// It is told once, and the section is left out: an empty one would say that there are no users.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_keeps_no_users_does_not_make_an_export_fail() {
    let two = Two::start(true).await;
    two.ok("user create alice --password-from env:ALICE_PW --broker keeper --yes")
        .await;
    let some = two.ok("export all").await;
    assert_eq!(
        some.stdout,
        "api = \"rmq/v1\"\ncluster = \"C\"\n\n[user.alice]\ntype = \"normal\"\nstatus = \"enable\"\n"
    );
    assert_eq!(
        some.stderr
            .matches("no users and access rules are kept by other:0")
            .count(),
        1,
        "{some:?}"
    );
    let file = two.path("some.toml");
    std::fs::write(&file, &some.stdout).unwrap();
    let nothing = two.ok(&format!("apply -f {file} --yes")).await;
    assert_eq!(nothing.stdout, "", "{nothing:?}");
    // Of the second broker alone there is nothing to tell, and nothing to apply to.
    let none = two.ok("export all --broker other").await;
    assert_eq!(none.stdout, "api = \"rmq/v1\"\ncluster = \"C\"\n");
    let refused = two.run(&format!("apply -f {file} --broker other --yes")).await;
    assert_eq!(refused.code, 12, "{refused:?}");
    assert!(
        refused.stderr.contains("authenticationMetadataProvider"),
        "{refused:?}"
    );
    // Nor is a side compared that tells nothing.
    let compared = two.run("cluster diff broker:keeper broker:other -o json").await;
    assert_eq!(compared.code, 0, "{compared:?}");
    let json: Value = serde_json::from_str(&compared.stdout).unwrap();
    let not_compared = json["summary"]["not_compared"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(not_compared.contains("other:0"), "{json}");
    let sides = two
        .run(&format!("cluster diff broker:keeper {file} -o json"))
        .await;
    assert_eq!(sides.code, 0, "{sides:?}");
    let renamed = some.stdout.replace("user.alice", "user.carol");
    std::fs::write(&file, renamed).unwrap();
    let differs = two
        .run(&format!("cluster diff broker:keeper {file} -o csv"))
        .await;
    assert_eq!(differs.code, 10, "{differs:?}");
    assert!(
        differs.stdout.contains("user,alice") && differs.stdout.contains("user,carol"),
        "{differs:?}"
    );
    // Topics alone are asked of nobody's users.
    two.keepers
        .iter()
        .for_each(|keeper| keeper.asked.lock().unwrap().clear());
    two.ok("export topics").await;
    let asked = two.keepers[0].asked.lock().unwrap().clone();
    assert!(
        !asked.iter().any(|code| (3001..=3010).contains(code)),
        "{asked:?}"
    );
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_user_or_rule_in_a_file_is_told_before_anything_is_asked() {
    let two = Two::start(false).await;
    let file = two.path("wrong.toml");
    for (text, part) in [
        ("[user.a]\ntype = \"admin\"\n", "neither normal nor super"),
        ("[user.a]\npassword = \"x\"\n", "password"),
        (
            "[user.a]\npassword_from = \"hunter2\"\n",
            "never the password itself",
        ),
        (
            "[[acl]]\nsubject = \"a\"\nresource = \"Queue:x\"\n",
            "a resource is",
        ),
        (
            "[[acl]]\nsubject = \"a\"\nresource = \"*\"\nactions = [\"write\"]\n",
            "an action is one of",
        ),
        (
            "[[acl]]\nsubject = \"a\"\nresource = \"*\"\nactions = []\n",
            "at least one action",
        ),
        (
            "[[acl]]\nsubject = \"a\"\nresource = \"*\"\n[[acl]]\nsubject = \"User:a\"\nresource = \"*\"\n",
            "twice",
        ),
        ("[[acl]]\nsubject = \"a\"\n", "resource"),
    ] {
        std::fs::write(&file, format!("api = \"rmq/v1\"\n{text}")).unwrap();
        let ran = two.run(&format!("apply -f {file} --yes")).await;
        assert_eq!(ran.code, 2, "{text}: {ran:?}");
        assert!(ran.stderr.contains(part), "{text}: {part} is missing: {ran:?}");
    }
    assert_eq!(two.keepers[0].asked.lock().unwrap().clone(), Vec::<i32>::new());
    for (text, code, part) in [
        ("[user.a.broker.nobody]\n", 4, "nobody"),
        (
            "[[acl]]\nsubject = \"a\"\nresource = \"*\"\n",
            9,
            "does not say its actions",
        ),
    ] {
        std::fs::write(&file, format!("api = \"rmq/v1\"\n{text}")).unwrap();
        let ran = two.run(&format!("apply -f {file} --yes")).await;
        assert_eq!(ran.code, code, "{text}: {ran:?}");
        assert!(ran.stderr.contains(part), "{text}: {part} is missing: {ran:?}");
    }
    two.stop().await;
}
