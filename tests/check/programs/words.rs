// Words counted in a hash table, whose hashes begin with random numbers.
use std::collections::HashMap;

#[inline(never)]
fn count(words: &[String]) -> HashMap<&str, u32> {
    let mut seen = HashMap::new();
    for w in words {
        *seen.entry(w.as_str()).or_insert(0) += 1;
    }
    seen
}

fn main() {
    let words: Vec<String> = (0..5000u32).map(|i| (i * 7919 % 499).to_string()).collect();
    println!("{}", count(&words).len());
}
