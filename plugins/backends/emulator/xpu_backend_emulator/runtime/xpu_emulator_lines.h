/* Products with lines that a block shares, as a part makes them that makes them later: until a product is through its
 * rows and lines may not change, and its sums are nobody's. xpu_simt.h includes it, with checks.
 *
 * They are made at once, into sums that the kernel does not see. In the place of its own it finds a pattern that is no
 * number, until multiply_end. What a product took is looked at again when it is waited for.
 */
#ifndef XPU_EMULATOR_LINES_H
#define XPU_EMULATOR_LINES_H

namespace xpu {
namespace emulator {

enum : int { most_products = 8, most_sums = 8, most_tiles = 8, tile_bytes = 16 * 16 / wave_width * 4, row_bytes = 64 };

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

/* Sums that are made. */
struct making {
    void *place;
    alignas(16) unsigned char sums[most_tiles * tile_bytes];
};

/* Of each thread. The counts are the runtime's, for it knows when a block begins and ends. */
struct in_flight_of_thread {
    product products[most_products];
    making sums[most_sums];
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
    if (__builtin_memcmp(p.rows, p.were, p.bytes)) bad_product("rows", "multiply_wait", p.at);
    each_place<T>(p.start, p.k, p.tiles, [&p](int64_t at) { line_kept(*p.of, at, 4, sizeof(T), p.since); });
}

inline void first_is_through()
{
    int32_t &count = own_products().products;
    product *products = own_flight().products;
    products[0].look(products[0]);
    for (int i = 1; i < count; ++i) products[i - 1] = products[i];
    --count;
}

inline bool are_hidden(const void *sums, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i)
        if (((const unsigned char *)sums)[i] != 0xff) return false;
    return true;
}

/* Where the sums are made that the kernel calls c; null where there is none. */
inline making *made_for(const void *c)
{
    making *sums = own_flight().sums;
    for (int i = 0; i < own_products().sums; ++i)
        if (sums[i].place == c) return sums + i;
    return nullptr;
}

} // namespace emulator

namespace simt {

inline void publish_lines() { emulator::publish_lines(); }

template <int L> void multiply_wait()
{
    while (emulator::own_products().products > L) emulator::first_is_through();
}

template <int N> void multiply_end(accumulator<float, 16, 16, 16> (&c)[N])
{
    using namespace emulator;
    making *made = made_for(c);
    if (!made) return;
    if (!are_hidden(c, sizeof c)) bad_product("sums", "multiply_end", own_products().at);
    __builtin_memcpy((void *)c, made->sums, sizeof c);
    *made = own_flight().sums[--own_products().sums];
}

template <int N, class T>
void multiply_watched(accumulator<float, 16, 16, 16> (&c)[N], const matrix_a<T, 16, 16, 16> &a,
                      const shared<const T> &from, int k XPU_SITE_TYPE)
{
    using namespace emulator;
    multiplying &own = own_products();
    const array &of = *from.space.of;
    const uint32_t since = begin_product(of, from.start, N, k, xpu_site);
    if (own.products == most_products) first_is_through(); /* it may be at any time */
    making *made = made_for(c);
    if (!made && own.sums < most_sums) {
        made = own_flight().sums + own.sums++;
        made->place = c;
        __builtin_memcpy(made->sums, c, sizeof c);
    } else if (made && !are_hidden(c, sizeof c)) {
        bad_product("sums", "multiply_end", xpu_site);
    }
    static_assert(sizeof c == N * tile_bytes && sizeof a <= row_bytes, "a lane has so much of a product");
    if (made) __builtin_memcpy((void *)c, made->sums, sizeof c);
    multiply_at_once(c, a, from, k, xpu_site);
    if (made) {
        __builtin_memcpy(made->sums, c, sizeof c);
        __builtin_memset((void *)c, 0xff, sizeof c);
    }
    each_place<T>(from.start, k, N, [&of](int64_t at) { line_read(of, at, 4, sizeof(T)); });
    product &p = own_flight().products[own.products++];
    p = {&a, {}, sizeof a, &of, from.start, k, N, since, xpu_site, look<T>};
    __builtin_memcpy(p.were, &a, sizeof a);
}

} // namespace simt
} // namespace xpu

#endif
