// Words counted in a map, by one thread or by two that share it.
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <thread>

static std::map<std::string, int> words;
static std::mutex lock;

static void __attribute__((noinline)) count(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        std::string word = "w" + std::to_string(i * 7919 % 499);
        std::lock_guard<std::mutex> hold(lock);
        words[word]++;
    }
}

int main(int argc, char **)
{
    if (argc > 1) {
        std::thread other(count, 0, 1500);
        count(1500, 3000);
        other.join();
    } else {
        count(0, 3000);
    }
    std::printf("%zu\n", words.size());
    return 0;
}
