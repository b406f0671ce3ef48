use std::path::Path;
use std::time::Instant;

use super::{read, write};

#[test]
fn dump() {
    let Ok(path) = std::env::var("SYN_FILE") else { return };
    let text = std::fs::read_to_string(Path::new(&path)).unwrap();
    let start = Instant::now();
    match read(&text) {
        Ok(tree) => {
            eprintln!("{:?} for {} bytes", start.elapsed(), text.len());
            let mut out = String::new();
            write::operation(&mut out, &tree, 0);
            std::fs::write("/tmp/p4/syn.out", out).unwrap();
        }
        Err(error) => panic!("{error}"),
    }
}
