//! Two name servers that route differently, as the heartbeats screen tells it.

use rmq::namesrv::{NameServer, NamesrvConfig};

use super::program::Program;
use crate::cli::{Rmq, broker};

#[tokio::test(flavor = "multi_thread")]
async fn a_wipe_that_reached_one_of_two_name_servers_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut servers = Vec::new();
    for n in 0..2 {
        let config = NamesrvConfig {
            listen_port: 0,
            bind_address: "127.0.0.1".into(),
            kv_config_path: dir.path().join(format!("kv{n}.json")).display().to_string(),
            ..NamesrvConfig::default()
        };
        servers.push(NameServer::start(config).await.unwrap());
    }
    let addrs: Vec<String> = servers.iter().map(|n| n.addr().to_string()).collect();
    let list = addrs.join(";");
    let broker = broker("broker-a", &list, &dir.path().join("store")).await;
    let rmq = Rmq::new(&list, dir.path());
    let made = rmq.line("topic create Orders --queues 4 --yes").await;
    assert_eq!(made.code, 0, "{made:?}");
    let at = list.clone();
    let program = tokio::task::spawn_blocking(move || {
        let program = Program::start(&at, &["--screen", "heartbeats"]);
        program.shows("✓ no");
        program
    });
    let program = program.await.unwrap();
    let wiped = rmq
        .line(&format!("broker wipe-write broker-a --yes -n {}", addrs[1]))
        .await;
    assert_eq!(wiped.code, 0, "{wiped:?}");
    tokio::task::spawn_blocking(move || {
        let mut program = program;
        program.press("r");
        program.shows("with ns2: topic ");
        program.press("d");
        program.shows("topic Orders broker-a: ns1 4/4 RW-, ns2 4/4 R--");
        program.press("\x1b\x03");
        assert!(program.ends().0);
    })
    .await
    .unwrap();
    broker.stop().await.unwrap();
    for server in servers {
        server.stop().await;
    }
}
