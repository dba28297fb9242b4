#[path = "../tests/answers/mod.rs"]
#[allow(dead_code)]
mod answers;
fn main() {
    std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(|| {
            for line in std::io::stdin().lines() {
                let r = serde_json::from_str(&line.unwrap().replace("Infinity", "null")).unwrap();
                println!("{}", answers::answer(&r));
            }
        })
        .unwrap()
        .join()
        .unwrap();
}
