// A benchmark of Google Benchmark, as its documentation has them.
#include <benchmark/benchmark.h>

#include <map>

static void lookups(benchmark::State &state)
{
    std::map<int, int> numbers;
    for (int i = 0; i < 1000; i++)
        numbers[i * 7919 % 1000] = i;
    for (auto _ : state)
        for (int i = 0; i < 1000; i++)
            benchmark::DoNotOptimize(numbers.find(i));
}
BENCHMARK(lookups);

BENCHMARK_MAIN();
