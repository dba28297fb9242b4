//! The certificate changes under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use vela_tests::fixtures::until;
use vela_tests::load::VALIDATE;

use super::{Own, good, leaf, seconds, swap};

const ROTATIONS: usize = 5;
const CLIENTS: usize = 20;
/// Reviews a second, from all clients together.
const RATE: u64 = 200;

/// `VELA_LOAD_SECONDS` makes it longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotation_under_load_fails_no_review() {
    let own = Arc::new(Own::start("webhook-rotate", &[]).await);
    let time = seconds(8);
    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (own, stop, done) = (Arc::clone(&own), Arc::clone(&stop), Arc::clone(&done));
        clients.spawn(async move {
            let body = good();
            let pace = Duration::from_millis(1000 * CLIENTS as u64 / RATE);
            let mut beat = tokio::time::interval(pace);
            let mut kept = own.target.connect().await.unwrap();
            let mut failed = Vec::new();
            let mut count = 0;
            while !stop.load(Ordering::SeqCst) {
                beat.tick().await;
                count += 1;
                // every other one on a connection of its own, which checks the certificate
                let answer = if count % 2 == 0 {
                    kept.post(VALIDATE, &body).await
                } else {
                    own.target.post(VALIDATE, &body).await
                };
                match answer {
                    Ok(answer) if answer.is_admitted() => {
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                    Ok(answer) => failed.push(String::from_utf8_lossy(&answer.body).into_owned()),
                    Err(error) => failed.push(format!("{error:#}")),
                }
            }
            failed
        });
    }
    let start = Instant::now();
    for rotation in 1..=ROTATIONS {
        let before = own.target.connect().await.unwrap().certificate();
        swap(&own.mount, &format!("..{rotation}"), &leaf(&own.cluster, "webhook-rotate"));
        until("the new certificate is shown", Duration::from_secs(20), async || {
            own.target.connect().await.unwrap().certificate() != before
        })
        .await;
        let part = time * u32::try_from(rotation).unwrap() / ROTATIONS as u32;
        until("load after the change", time * 10, async || start.elapsed() >= part).await;
    }
    stop.store(true, Ordering::SeqCst);
    let failed: Vec<String> = clients.join_all().await.into_iter().flatten().collect();
    let done = done.load(Ordering::SeqCst);
    assert!(failed.is_empty(), "{} of {done} failed: {:?}", failed.len(), failed.first());
    assert!(done > CLIENTS * ROTATIONS, "{done} reviews");
    println!("{done} reviews in {:?}, {ROTATIONS} certificates, 0 failed", start.elapsed());
    own.assert_well().await;
}
