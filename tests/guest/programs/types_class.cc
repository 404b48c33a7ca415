// As types.c, of C++: classes in namespaces, bases, templates, references, containers.
#include <cstdio>
#include <vector>

#define FAR __attribute__((noipa))

namespace shop {

class Thing {
public:
    virtual ~Thing() {}
    virtual long price() const { return cost; }
    volatile long cost = 1;
};

struct Shelf {
    volatile int row = 0, column = 0;
};

template <typename T> class Box : public Thing {
public:
    long price() const override { return count; }
    volatile T count = 2;
    Shelf shelf;
    struct Part {
        volatile short a = 0, b = 0;
    } parts[4];
};

} // namespace shop

namespace {
struct Hidden {
    volatile long seen = 0;
};
} // namespace

enum { BOXES = 64, ROUNDS = 1500 };

FAR static long prices(std::vector<shop::Box<long> *> &boxes)
{
    long sum = 0;
    for (auto *box : boxes) {
        sum += box->cost;
        box->shelf.column = 3;
    }
    return sum;
}

FAR static void parts(shop::Box<long> &box, Hidden &hidden)
{
    for (int i = 0; i < BOXES; i++) {
        box.parts[i & 3].b = 1;
        box.count = i;
        hidden.seen = i;
    }
}

int main()
{
    std::vector<shop::Box<long> *> boxes;
    Hidden *hidden = new Hidden;
    for (int i = 0; i < BOXES; i++) {
        boxes.push_back(new shop::Box<long>);
        printf("object|shop::Box<long>|%p|%zu\n", (void *)boxes[i], sizeof *boxes[i]);
    }
    printf("object|(anonymous namespace)::Hidden|%p|%zu\n", (void *)hidden, sizeof *hidden);
    long sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        sum += prices(boxes);
        parts(*boxes[i % BOXES], *hidden);
    }
    const char *const members[] = {"Thing::cost", "shelf.column", "parts[].b", "count"};
    for (const char *member : members)
        printf("count|shop::Box<long>|%s|%d\n", member, BOXES * ROUNDS);
    printf("count|(anonymous namespace)::Hidden|seen|%d\n", BOXES * ROUNDS);
    return sum == 42;
}
