// One thing that is slow at a time, and the same without it, in C++: bugs NAME [fixed].
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#define APART __attribute__((noipa))

static uint64_t any()
{
    static uint64_t seed = 1;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 33;
}

// ---- objects of four types in no order, and by type ----

struct Shape {
    virtual ~Shape() = default;
    virtual uint64_t area() const = 0;
};
template <int N> struct Sized : Shape {
    uint64_t area() const override
    {
        return N;
    }
};

static APART uint64_t areas(const std::vector<std::unique_ptr<Shape>> &shapes)
{
    uint64_t sum = 0;
    for (const auto &shape : shapes)
        sum += shape->area();
    return sum;
}

static std::unique_ptr<Shape> shape_of(uint64_t type)
{
    if (type & 2)
        return type & 1 ? std::unique_ptr<Shape>(new Sized<3>)
                        : std::unique_ptr<Shape>(new Sized<2>);
    return type & 1 ? std::unique_ptr<Shape>(new Sized<1>) : std::unique_ptr<Shape>(new Sized<0>);
}

static uint64_t calls(bool fixed)
{
    const uint64_t count = 4096;
    std::vector<std::unique_ptr<Shape>> shapes;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t type = any() & 3;
        shapes.push_back(shape_of(fixed ? i * 4 / count : type));
    }
    for (unsigned round = 0; round < 20; round++)
        sum += areas(shapes);
    return sum;
}

// ---- a list whose nodes lie in no order, and in the order of the list ----

static APART uint64_t total(const std::list<uint64_t> &list)
{
    uint64_t sum = 0;
    for (uint64_t value : list)
        sum += value;
    return sum;
}

static uint64_t lists(bool fixed)
{
    const unsigned count = 1 << 16, places = 1 << 8; // each node goes behind any of these
    std::list<uint64_t> list(places, 1);
    std::vector<std::list<uint64_t>::iterator> at;
    for (auto i = list.begin(); i != list.end(); ++i)
        at.push_back(i);
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++) {
        auto &place = at[fixed ? 0 : any() % places];
        place = list.insert(fixed ? list.end() : std::next(place), i);
    }
    for (unsigned round = 0; round < 6; round++)
        sum += total(list);
    return sum;
}

// ---- a pointer whose count of owners two threads change, and one that each has for itself ----

static std::shared_ptr<uint64_t> settings = std::make_shared<uint64_t>(7);

static APART uint64_t own(const std::shared_ptr<uint64_t> &from)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < 20000; i++) {
        std::shared_ptr<uint64_t> mine = from;
        sum += *mine;
    }
    return sum;
}

static uint64_t owners(bool fixed)
{
    auto work = [fixed] { own(fixed ? std::make_shared<uint64_t>(7) : settings); };
    std::thread one(work), two(work);
    one.join();
    two.join();
    return *settings;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        uint64_t (*run)(bool);
    } bugs[] = {{"virtual", calls}, {"list", lists}, {"owners", owners}};
    for (const auto &bug : bugs)
        if (argc > 1 && !std::strcmp(argv[1], bug.name)) {
            std::printf("%d\n", bug.run(argc > 2) != 42);
            return 0;
        }
    return 1;
}
