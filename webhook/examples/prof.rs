//! In-process cost of one review.
use std::io::BufRead as _;
use std::sync::Arc;
use vela_webhook::*;
fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().unwrap();
    let count: usize = args.next().unwrap().parse().unwrap();
    let rounds: usize = args.next().unwrap().parse().unwrap();
    let mut snapshot = Snapshot::default();
    for line in std::io::BufReader::new(std::fs::File::open(file).unwrap()).lines() {
        let object: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let kind = Kind::ALL.into_iter().find(|k| object["kind"] == k.kind()).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        snapshot.insert(
            kind,
            "vela-system",
            &name,
            Arc::new(Definition::new(kind, &object).unwrap()),
        );
    }
    let engine = Engine::new(Settings::default(), true);
    let body = std::fs::read(args.next().unwrap()).unwrap();
    let _ = count;
    let ep = endpoints()
        .find(|e| e.path.contains("validating") && e.path.ends_with("applications"))
        .unwrap();
    let run = || engine.review(ep, Some("application/json"), &body, &snapshot, |n| panic!("{n:?}"));
    let (env, d) = run();
    eprintln!("{}", String::from_utf8_lossy(&encode(env.as_ref(), &d)));
    let t = std::time::Instant::now();
    for _ in 0..rounds {
        let (env, d) = run();
        std::hint::black_box(encode(env.as_ref(), &d));
    }
    eprintln!("{:?} each", t.elapsed() / rounds as u32);
}
