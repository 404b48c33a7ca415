// Samples on request, in C++11: how many samples each thread of a profile has, and how many of them
// read or write memory.
//
//     c++ threads.cpp $(pkg-config --cflags --libs spex-profile) -o threads
//     ./threads perf.data
#include <spex/analysis.h>

#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

namespace
{

struct Close {
    void operator()(spex_analysis *profile) const
    {
        spex_analysis_close(profile);
    }
};
using Profile = std::unique_ptr<spex_analysis, Close>;

Profile open_profile(const char *path)
{
    spex_analysis_options options{};
    options.size = sizeof options;
    options.want = SPEX_WANT_DATA;
    options.max_memory = 256u << 20;
    spex_analysis *profile = nullptr;
    spex_error error{};
    if (spex_analysis_open(path, &options, &profile, &error) != SPEX_OK)
        throw std::runtime_error(error.text);
    return Profile(profile);
}

struct Count {
    std::string comm;
    unsigned long samples = 0, memory = 0;
};

} // namespace

int main(int argc, char **argv)
try {
    const Profile profile = open_profile(argc > 1 ? argv[1] : "perf.data");
    std::map<int, Count> threads;
    const spex_sample *samples = nullptr;
    size_t count = 0;
    spex_error error{};
    spex_status status;
    while ((status = spex_analysis_next(profile.get(), &samples, &count, &error)) == SPEX_OK) {
        for (const spex_sample *s = samples; s != samples + count; s++) {
            Count &thread = threads[s->tid];
            thread.comm = s->comm ? s->comm : "";
            thread.samples++;
            thread.memory += spex_sample_memory(s);
        }
    }
    if (status != SPEX_END)
        throw std::runtime_error(error.text);
    for (const auto &thread : threads)
        std::printf("%d %s %lu %lu\n", thread.first, thread.second.comm.c_str(),
                    thread.second.samples, thread.second.memory);
    return 0;
} catch (const std::exception &e) {
    std::fprintf(stderr, "threads: %s\n", e.what());
    return 1;
}
