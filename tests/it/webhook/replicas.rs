//! Two replicas behind one address, as behind a Service: rolled and killed under load.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use vela_tests::load::{Target, VALIDATE};

use super::{Own, good};

const CLIENTS: usize = 8;

/// Probes that fail in a row before nothing is sent there, as the chart has it: on a busy machine one
/// alone says little.
const UNREADY: usize = 3;

/// Passes connections to the replicas that are ready, in turn.
struct Service {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Service {
    async fn of(replicas: &[Arc<Own>]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let ready: Vec<Arc<AtomicBool>> = replicas.iter().map(|_| Arc::default()).collect();
        for (replica, ready) in replicas.iter().zip(&ready) {
            let (replica, ready) = (Arc::clone(replica), Arc::clone(ready));
            ready.store(replica.program.is_ready().await, Ordering::SeqCst);
            tasks.spawn(async move {
                let mut failures = 0;
                loop {
                    let answers = replica.program.is_ready().await;
                    failures = if answers { 0 } else { failures + 1 };
                    ready.store(failures < UNREADY, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        }
        let targets: Vec<SocketAddr> = replicas.iter().map(|r| r.target.address()).collect();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            let mut turn = 0;
            while let Ok((client, _)) = listener.accept().await {
                turn += 1;
                let order = (0..targets.len()).map(|k| (turn + k) % targets.len());
                let chosen: Vec<SocketAddr> = order
                    .filter(|k| ready[*k].load(Ordering::SeqCst))
                    .map(|k| targets[k])
                    .collect();
                connections.spawn(pass(client, chosen));
            }
        });
        Self { address, _tasks: tasks }
    }
}

/// A replica that refuses the connection is passed over, as endpoints without a listener are.
async fn pass(mut client: TcpStream, targets: Vec<SocketAddr>) {
    for target in targets {
        if let Ok(mut server) = TcpStream::connect(target).await {
            let _ = copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}

/// Reviews from some clients until stopped; a client takes a new connection every tenth time.
struct Load {
    stop: Arc<AtomicBool>,
    good: Arc<AtomicUsize>,
    tasks: JoinSet<Vec<String>>,
}

impl Load {
    fn start(target: &Target) -> Self {
        let (stop, good_ones): (Arc<AtomicBool>, Arc<AtomicUsize>) = Default::default();
        let mut tasks = JoinSet::new();
        for _ in 0..CLIENTS {
            let (target, stop) = (target.clone(), Arc::clone(&stop));
            let counter = Arc::clone(&good_ones);
            tasks.spawn(async move {
                let body = good();
                let mut errors = Vec::new();
                while !stop.load(Ordering::SeqCst) {
                    let Ok(mut connection) = target.connect().await else {
                        errors.push("no connection".to_owned());
                        continue;
                    };
                    for _ in 0..10 {
                        match connection.post(VALIDATE, &body).await {
                            Ok(answer) if answer.is_admitted() => {
                                counter.fetch_add(1, Ordering::SeqCst);
                                if answer.is_last {
                                    break;
                                }
                            }
                            Ok(answer) => {
                                errors.push(String::from_utf8_lossy(&answer.body).into_owned());
                            }
                            Err(error) => {
                                errors.push(format!("{error:#}"));
                                break;
                            }
                        }
                    }
                }
                errors
            });
        }
        Self { stop, good: good_ones, tasks }
    }

    /// Waits for this many more good answers.
    async fn more(&self, count: usize) {
        let until = self.good.load(Ordering::SeqCst) + count;
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.good.load(Ordering::SeqCst) < until {
            assert!(Instant::now() < deadline, "no answers any more");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::SeqCst);
        self.tasks.join_all().await.into_iter().flatten().collect()
    }
}

async fn two(first: &'static str, second: &'static str) -> (Vec<Arc<Own>>, Service, Target) {
    // As in the chart: after the signal it continues until nobody sends new connections.
    let flags = ["--shutdown-delay-duration=1s"];
    let replicas =
        vec![Arc::new(Own::start(first, &flags).await), Arc::new(Own::start(second, &flags).await)];
    let service = Service::of(&replicas).await;
    let authority = replicas[0].cluster.authority().certificate();
    let target = Target::new(&format!("https://{}", service.address), authority).unwrap();
    (replicas, service, target)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_loses_no_review() {
    let (replicas, _service, target) = two("webhook-roll-a", "webhook-roll-b").await;
    let load = Load::start(&target);
    load.more(50).await;
    for _ in 0..2 {
        for replica in &replicas {
            let one = Arc::clone(replica);
            let stopped = tokio::task::spawn_blocking(move || {
                one.program.stop(Duration::from_secs(20)).unwrap()
            });
            assert!(stopped.await.unwrap(), "it ended by itself");
            load.more(30).await;
            replica.program.start(&replica.cluster).unwrap();
            replica.program.ready().await.unwrap();
            load.more(30).await;
        }
    }
    let errors = load.end().await;
    assert!(errors.is_empty(), "{} failed: {:?}", errors.len(), errors.first());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_replica_costs_only_what_it_was_answering() {
    let (replicas, _service, target) = two("webhook-kill-a", "webhook-kill-b").await;
    let load = Load::start(&target);
    load.more(50).await;
    replicas[0].program.kill().unwrap();
    load.more(200).await;
    replicas[0].program.start(&replicas[0].cluster).unwrap();
    replicas[0].program.ready().await.unwrap();
    load.more(50).await;
    let errors = load.end().await;
    // A process that dies closes its sockets one after the other: a client can lose its connection, and the next one that the
    // dying process had not accepted yet.
    assert!(errors.len() <= 2 * CLIENTS, "{} failed: {:?}", errors.len(), errors.first());
    assert!(errors.iter().all(|error| !error.contains("allowed")), "{errors:?}");
}
