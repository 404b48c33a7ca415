// A benchmark of criterion, as its documentation has them.
use criterion::{black_box, criterion_group, criterion_main, Criterion};
use std::collections::HashMap;

fn count(n: u32) -> usize {
    let mut seen = HashMap::new();
    for i in 0..n {
        *seen.entry(i * 7919 % 499).or_insert(0) += 1;
    }
    seen.len()
}

fn words(c: &mut Criterion) {
    c.bench_function("words", |b| b.iter(|| count(black_box(2000))));
}

criterion_group!(benches, words);
criterion_main!(benches);
