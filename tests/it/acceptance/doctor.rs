//! `rmq cluster doctor` on Java's cluster: nothing in a healthy one, and each fault that was made in it.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Checks;
use crate::cli::all_but_disk;
use crate::support::nodes::{Kind, Nodes, Program};
use crate::support::session::Session;
use crate::support::{java, rmq, scratch, wait};

/// Longest time until a fault shows: clients and brokers tell in their own time.
const LIMIT: Duration = Duration::from_secs(180);

struct Patient<'a> {
    nodes: &'a Nodes,
    checks: &'a mut Checks,
}

impl Patient<'_> {
    fn found(&self, namesrv: &str) -> (i32, Vec<String>) {
        self.found_by(rmq::run_patiently, namesrv)
    }

    fn found_by(&self, run: fn(&Path, &str, &[&str]) -> rmq::Ran, namesrv: &str) -> (i32, Vec<String>) {
        let checks = all_but_disk();
        let ran = run(
            &self.nodes.home,
            namesrv,
            &["doctor", "--checks", &checks, "-o", "name"],
        );
        let mut ids: Vec<String> = ran.out.lines().map(str::to_owned).collect();
        ids.dedup();
        (ran.code, ids)
    }

    /// Waits until the doctor finds these and nothing else.
    fn finds(&mut self, what: &str, ids: &[&str], code: i32) {
        self.finds_at(what, &self.nodes.namesrv.clone(), ids, code);
    }

    fn finds_at(&mut self, what: &str, namesrv: &str, ids: &[&str], code: i32) {
        let begin = Instant::now();
        let mut have = self.found(namesrv);
        while (have.0, have.1.iter().map(String::as_str).collect::<Vec<_>>()) != (code, ids.to_vec()) {
            if begin.elapsed() > LIMIT {
                return self
                    .checks
                    .check(what, Err(format!("{have:?} instead of {ids:?}, {code}")));
            }
            std::thread::sleep(Duration::from_millis(200));
            have = self.found(namesrv);
        }
        self.checks.check(what, Ok(()));
    }
}

#[test]
#[ignore = "starts five Java servers: cargo test --test it acceptance -- --ignored"]
fn faults_of_a_java_cluster_are_found() {
    let Some(peers) = java::peers("faults_of_a_java_cluster_are_found") else {
        return;
    };
    let dir = scratch();
    let mut session = Session::start(peers, dir.path());
    let mut nodes = Nodes::start(Kind::Java, peers, dir.path(), &[]);
    let namesrv = nodes.namesrv.clone();
    let mut checks = Checks::new("faults_of_a_java_cluster_are_found");
    let stay = |name: &str, options: &[&str]| {
        let args = [&[namesrv.as_str(), "D", "CGD"], options].concat();
        let mut program = Program::start(peers, &dir.path().join(name), "Stay", &args);
        program.wait("the consumers are online", LIMIT, |lines| {
            lines.iter().any(|l| l == "online")
        });
        program
    };
    nodes.ok("topic create D --queues 2 --yes");
    nodes.ok("group create CGD --yes");
    nodes.wait_for_route("D", "\"writeQueueNums\":2");
    session.send(&nodes.namesrv, "D", 8, &[]);
    {
        let mut patient = Patient {
            nodes: &nodes,
            checks: &mut checks,
        };
        let member = stay("one", &["instances=one"]);
        patient.finds("healthy", &[], 0);

        let second = stay("tags", &["instances=two", "tags=TagA"]);
        patient.finds("GR1: two subscriptions in a group", &["GR1"], 11);
        second.end();
        patient.finds("GR1: gone with the client", &[], 0);
        let second = stay("model", &["instances=two", "models=BROADCASTING"]);
        patient.finds("GR7: two message models in a group", &["GR7"], 11);
        second.end();
        patient.finds("GR7: gone with the client", &[], 0);
        let idle = stay("idle", &["clients=5"]);
        patient.finds("GR3: more clients than queues", &["GR3"], 10);
        idle.end();
        let twin = stay("twin", &["instances=one"]);
        let begin = Instant::now();
        let mut have = patient.found(&namesrv);
        while !have.1.contains(&"GR4".to_owned()) && begin.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(200));
            have = patient.found(&namesrv);
        }
        let twice = have.1.contains(&"GR4".to_owned());
        patient.checks.check(
            "GR4: one client id twice",
            if twice { Ok(()) } else { Err(format!("{have:?}")) },
        );
        twin.end();

        nodes.ok("topic update D --read-queues 1 --force --yes");
        patient.finds("TP1: fewer read than write queues, with messages", &["TP1"], 11);
        nodes.ok("topic update D --read-queues 2 --yes");
        patient.finds("healthy again", &[], 0);
        member.end();

        // A name server that no broker knows.
        let other = crate::support::ports::Block::take();
        let stranger = peers.namesrv(&dir.path().join("stranger"), other.namesrv());
        let three = format!("{namesrv};{}", crate::support::local(other.namesrv()));
        patient.finds_at(
            "NS2, NS3: a name server without brokers",
            &three,
            &["NS2", "NS3"],
            11,
        );
        drop(stranger);
        patient.finds_at("NS1: a name server that is gone", &three, &["NS1"], 11);
    }
    nodes.b.process().pause();
    let begin = Instant::now();
    let have = Patient {
        nodes: &nodes,
        checks: &mut checks,
    }
    .found_by(rmq::run, &namesrv);
    let took = begin.elapsed();
    let right = have.0 == 11 && have.1.contains(&"BR1".to_owned()) && took < Duration::from_secs(35);
    checks.check(
        "BR1: a broker that stands",
        if right {
            Ok(())
        } else {
            Err(format!("{have:?} in {took:?}"))
        },
    );
    nodes.b.process().resume();
    wait::until_true("the broker goes on", LIMIT, || {
        nodes.line("doctor --checks BR1").code == 0
    });
    // A slave that is killed is no fault that can be seen: the name servers drop it with its connection.
    nodes.slave_node().pause();
    let begin = Instant::now();
    let patient = Patient {
        nodes: &nodes,
        checks: &mut checks,
    };
    // It is dropped after 120 s; its master notices after 20 s.
    let mut seen = Vec::new();
    let told = |ids: &[String]| ["BR1", "HA1"].iter().all(|id| ids.iter().any(|have| have == id));
    while !seen.iter().any(|ids: &Vec<String>| told(ids)) && begin.elapsed() < Duration::from_secs(115) {
        seen.push(patient.found_by(rmq::run, &namesrv).1);
    }
    let right = seen.last().is_some_and(|ids| told(ids));
    checks.check(
        "HA1, BR1: a slave that stands",
        if right { Ok(()) } else { Err(format!("{seen:?}")) },
    );
    nodes.slave_node().resume();
    nodes.a.process().kill();
    let mut patient = Patient {
        nodes: &nodes,
        checks: &mut checks,
    };
    patient.finds("BR4: a master that was killed", &["BR4"], 11);
    checks.end();
}
