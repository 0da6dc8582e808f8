/* Products with lines that a block shares, as a part makes them that makes them later: until a product is through its
 * rows and lines may not change, and its sums are nobody's. xpu_simt.h includes it, with checks.
 *
 * They are made at once, into sums that the kernel does not see: until multiply_end it may not use its own, which hold
 * a pattern that is no number. What a product took is looked at again when it is waited for.
 */
#ifndef XPU_EMULATOR_LINES_H
#define XPU_EMULATOR_LINES_H

namespace xpu {
namespace emulator {

enum : int { most_tiles = 8, tile_bytes = 16 * 16 / wave_width * 4, row_bytes = 64 };

/* A product that is not known to be through. */
struct product {
    const void *rows;
    unsigned char were[row_bytes];
    int bytes;
    const array *of;
    int64_t start;
    int k, tiles;
    uint32_t since;
    site at;
    void (*look)(const product &);
};

/* Of each thread. The counts are the runtime's, for it knows when a block begins and ends. */
struct in_flight_of_thread {
    product products[most_products];
    hidden made[most_sums];
    alignas(16) unsigned char sums[most_sums][most_tiles * tile_bytes];
};
template <class> struct in_flight_of {
    static in_flight_of_thread threads[XPU_THREADS];
};
template <class Any> in_flight_of_thread in_flight_of<Any>::threads[XPU_THREADS];
inline in_flight_of_thread &own_flight() { return in_flight_of<void>::threads[now.thread]; }

/* Calls f with every place, in bytes, that this lane takes numbers of lines from. */
template <class T, class F> void each_place(int64_t start, int k, int tiles, F f)
{
    matrix_b<T, 16, 16, 16> b;
    for (int j = 0; j < tiles; ++j)
        for (int i = 0; i < b.count; ++i)
            f(start + line_place(j * 16 + b.column(i), k + b.k(i)) * (int64_t)sizeof(T));
}

template <class T> void look(const product &p)
{
    if (__builtin_memcmp(p.rows, p.were, p.bytes)) bad_rows(p.at);
    each_place<T>(p.start, p.k, p.tiles, [&p](int64_t at) { line_kept(*p.of, at, 4, sizeof(T), p.since, p.at); });
}

inline void first_is_through()
{
    int32_t &count = own_products().products;
    product *products = own_flight().products;
    products[0].look(products[0]);
    for (int i = 1; i < count; ++i) products[i - 1] = products[i];
    --count;
}

/* Which sums of the thread's the kernel has at c; -1 where there are none. */
inline int made_for(const void *c)
{
    const multiplying &own = own_products();
    for (int i = 0; i < own.sums; ++i)
        if (own.made[i].sums == c) return i;
    return -1;
}

} // namespace emulator

inline void publish_lines() { emulator::publish_lines(); }

template <int L> void multiply_wait(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    static_assert(L >= 0, "multiply_wait leaves 0 products or more on their way");
    emulator::line_verb(L, {"multiply_wait", file, line});
    while (emulator::own_products().products > L) emulator::first_is_through();
}

template <int N>
void multiply_end(accumulator<float, 16, 16, 16> (&c)[N], const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    using namespace emulator;
    line_verb(N, {"multiply_end", file, line});
    while (own_products().products) first_is_through();
    const int made = made_for(c);
    if (made < 0) return;
    in_flight_of_thread &flight = own_flight();
    __builtin_memcpy((void *)c, flight.sums[made], sizeof c);
    multiplying &own = own_products();
    const int last = --own.sums;
    own.made[made] = own.made[last];
    if (made != last) __builtin_memcpy(flight.sums[made], flight.sums[last], sizeof flight.sums[made]);
    --now.hidden_sums;
}

namespace simt {

template <int N, class T>
void multiply_watched(accumulator<float, 16, 16, 16> (&c)[N], const matrix_a<T, 16, 16, 16> &a,
                      const shared<const T> &from, int k XPU_SITE_TYPE)
{
    using namespace emulator;
    static_assert(sizeof c == N * tile_bytes && sizeof a <= row_bytes, "a lane has so much of a product");
    multiplying &own = own_products();
    in_flight_of_thread &flight = own_flight();
    const array &of = *from.space.of;
    const uint32_t since = begin_product(of, from.start, N, k, xpu_site);
    if (own.products == most_products) first_is_through(); /* it may be at any time */
    own.made = flight.made;
    int made = made_for(c);
    if (made >= 0) {
        __builtin_memcpy((void *)c, flight.sums[made], sizeof c);
    } else if (own.sums < most_sums) {
        made = own.sums++;
        ++now.hidden_sums;
    }
    if (made >= 0) own.made[made] = {(const unsigned char *)c, sizeof c, xpu_site};
    own.shown = made;
    multiply_at_once(c, a, from, k, xpu_site);
    own.shown = -1;
    if (made >= 0) {
        __builtin_memcpy(flight.sums[made], c, sizeof c);
        __builtin_memset((void *)c, 0xff, sizeof c);
    }
    each_place<T>(from.start, k, N, [&](int64_t at) { line_read(of, at, 4, sizeof(T), xpu_site); });
    product &p = flight.products[own.products++];
    p = {&a, {}, sizeof a, &of, from.start, k, N, since, xpu_site, look<T>};
    __builtin_memcpy(p.were, &a, sizeof a);
}

} // namespace simt
} // namespace xpu

#endif
