// A test of Catch2 that calls the code once, beside a benchmark of it, which another run would name.
#define CATCH_CONFIG_MAIN
#define CATCH_CONFIG_ENABLE_BENCHMARKING
#include <catch2/catch.hpp>

#include <map>

static int finds()
{
    std::map<int, int> numbers;
    for (int i = 0; i < 1000; i++)
        numbers[i * 7919 % 1000] = i;
    int sum = 0;
    for (int i = 0; i < 1000; i++)
        sum += numbers.find(i)->second;
    return sum;
}

TEST_CASE("finds")
{
    REQUIRE(finds() == 499500);
}

TEST_CASE("finds, timed")
{
    BENCHMARK("finds")
    {
        return finds();
    };
}
