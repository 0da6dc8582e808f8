/* The part of the dialect `simt` that is the same on every backend. It knows no host and no vendor.
 *
 * A backend's xpu_simt.h includes it after it has supplied, in namespace xpu:
 *   int8_t ... uint64_t             in the global namespace
 *   wave_width, lane()              the width of a wave, this thread's place in it
 *   global<T>, shared<T>            with load<V>(i), store<V>(i, v), as<U>(), operator[]
 *   fma(a, b, c)                    of float, rounded once
 *   simt::exchange(word, from, site) all lanes of the wave call it; gives the 32-bit word of lane `from`
 *   simt::converge(same, site)      all lanes of the wave call it, with the same number; may do nothing
 * and the macros
 *   XPU_THREADS                     the most threads of a block, 1024 where nobody says
 *   XPU_DEVICE                      what stands before a function of the device
 *   XPU_SITE_PARAMETER, XPU_SITE(verb), XPU_SITE_TYPE, XPU_SITE_PASSED
 *                                   how a verb knows where it is called; all empty, or each with its comma:
 *                                   what a verb takes last, what it makes of it, how that is taken, passed on
 *   XPU_KEPT                        what stands before a variable of the device that stays in the object unused
 * A backend with an instruction of its own for max and min, bytes, dot4, the conversions or copies
 * defines XPU_NATIVE_MAX, XPU_NATIVE_BYTES, XPU_NATIVE_DOT4, XPU_NATIVE_HALF, XPU_NATIVE_BFLOAT16, XPU_NATIVE_COPY and supplies them; one
 * with native matrix shapes supplies what xpu_simt_matrix.h lists, after this file.
 */
#ifndef XPU_SIMT_COMMON_H
#define XPU_SIMT_COMMON_H

#ifndef XPU_CHECKED_INDEX /* a backend that looks at the elements of a thread's values defines it */
#define XPU_CHECKED_INDEX(i, count) (i)
#endif
#ifndef XPU_CHECKED_SUM /* the same of an accumulator's, whose first one is at `sums` */
#define XPU_CHECKED_SUM(sums, i, count) XPU_CHECKED_INDEX(i, count)
#endif

namespace xpu {

namespace simt {
constexpr int alignment(int bytes, int least)
{
    return bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16 ? bytes : least;
}

/* The same bytes, read as another type of the same size. */
template <class To, class From> XPU_DEVICE To bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "both types have the same size");
    union { From from; To to; } both;
    both.from = from;
    return both.to;
}
} // namespace simt

/* N values side by side, aligned to their size where it is 2, 4, 8 or 16 bytes. */
template <class T, int N> struct alignas(simt::alignment(sizeof(T) * N, alignof(T))) vec {
    T element[N];
    XPU_DEVICE T &operator[](int i) { return element[XPU_CHECKED_INDEX(i, N)]; }
    XPU_DEVICE const T &operator[](int i) const { return element[XPU_CHECKED_INDEX(i, N)]; }
};

/* ---- arithmetic: one definition everywhere, so that NaN goes the same way on all backends ---- */

XPU_DEVICE int min(int a, int b) { return b < a ? b : a; }
XPU_DEVICE int max(int a, int b) { return b > a ? b : a; }
XPU_DEVICE uint32_t min(uint32_t a, uint32_t b) { return b < a ? b : a; }
XPU_DEVICE uint32_t max(uint32_t a, uint32_t b) { return b > a ? b : a; }
XPU_DEVICE int64_t min(int64_t a, int64_t b) { return b < a ? b : a; }
XPU_DEVICE int64_t max(int64_t a, int64_t b) { return b > a ? b : a; }
XPU_DEVICE int64_t min(int64_t a, int b) { return min(a, (int64_t)b); }
XPU_DEVICE int64_t max(int64_t a, int b) { return max(a, (int64_t)b); }
XPU_DEVICE int64_t min(int a, int64_t b) { return min((int64_t)a, b); }
XPU_DEVICE int64_t max(int a, int64_t b) { return max((int64_t)a, b); }
/* NaN when either is: a maximum over a row says whether the row is sound. */
#ifndef XPU_NATIVE_MAX
XPU_DEVICE float min(float a, float b) { return a < b || a != a ? a : b; }
XPU_DEVICE float max(float a, float b) { return a > b || a != a ? a : b; }
#endif
XPU_DEVICE int abs(int a) { return a < 0 ? -a : a; }
XPU_DEVICE int64_t abs(int64_t a) { return a < 0 ? -a : a; }
XPU_DEVICE float abs(float a) { return simt::bits<float>(simt::bits<uint32_t>(a) & 0x7fffffffu); }

/* ---- storage types ---- */

struct half { uint16_t bits; };     /* IEEE binary16 */
struct half2 { uint32_t bits; };    /* two of them, the first in the lower bits */
struct bfloat16 { uint16_t bits; }; /* the upper half of a binary32 */

#ifndef XPU_NATIVE_HALF
XPU_DEVICE float to_float(half v)
{
    const uint32_t sign = (v.bits & 0x8000u) << 16, rest = v.bits & 0x7fffu;
    if (rest < 0x0400u) { /* a multiple of 2^-24 */
        const float magnitude = (float)rest * 0x1p-24f;
        return simt::bits<float>(simt::bits<uint32_t>(magnitude) | sign);
    }
    const uint32_t bias = rest < 0x7c00u ? 112u << 23 : 224u << 23;
    return simt::bits<float>(sign | ((rest << 13) + bias));
}

XPU_DEVICE half half_from(float f)
{
    const uint32_t all = simt::bits<uint32_t>(f), sign = all >> 16 & 0x8000u, rest = all & 0x7fffffffu;
    uint32_t made;
    if (rest > 0x7f800000u) made = 0x7e00u;       /* NaN */
    else if (rest >= 0x477ff000u) made = 0x7c00u; /* 65520 and above round to infinity */
    else if (rest < 0x38800000u)                  /* below 2^-14: the sum rounds to a multiple of 2^-24 */
        made = simt::bits<uint32_t>(simt::bits<float>(rest) + 0.5f) - 0x3f000000u;
    else made = (rest - (112u << 23) + 0x0fffu + (rest >> 13 & 1u)) >> 13;
    return half{(uint16_t)(sign | made)};
}

XPU_DEVICE half2 fma(half2 a, half2 b, half2 c)
{
    uint32_t made = 0;
    for (int i = 0; i < 32; i += 16) {
        const float x = to_float(half{(uint16_t)(a.bits >> i)}), y = to_float(half{(uint16_t)(b.bits >> i)});
        made |= (uint32_t)half_from(fma(x, y, to_float(half{(uint16_t)(c.bits >> i)}))).bits << i;
    }
    return half2{made};
}
#endif

XPU_DEVICE half2 half2_of(half low, half high) { return half2{low.bits | (uint32_t)high.bits << 16}; }

#ifndef XPU_NATIVE_BFLOAT16
XPU_DEVICE float to_float(bfloat16 v) { return simt::bits<float>((uint32_t)v.bits << 16); }

XPU_DEVICE bfloat16 bfloat16_from(float f)
{
    const uint32_t all = simt::bits<uint32_t>(f);
    if ((all & 0x7fffffffu) > 0x7f800000u) return bfloat16{(uint16_t)(all >> 16 | 0x40u)};
    return bfloat16{(uint16_t)((all + 0x7fffu + (all >> 16 & 1u)) >> 16)};
}
#endif

namespace simt {
template <class T> struct rounded;
template <> struct rounded<half> { static XPU_DEVICE half of(float f) { return half_from(f); } };
template <> struct rounded<bfloat16> { static XPU_DEVICE bfloat16 of(float f) { return bfloat16_from(f); } };
template <> struct rounded<float> { static XPU_DEVICE float of(float f) { return f; } };
} // namespace simt

XPU_DEVICE float to_float(float v) { return v; }
/* Rounds to nearest, ties to even; too large becomes infinite, NaN stays NaN. */
template <class T> XPU_DEVICE T from_float(float f) { return simt::rounded<T>::of(f); }

/* ---- bytes of a word, the first in the lowest bits ---- */

#ifndef XPU_NATIVE_BYTES
XPU_DEVICE uint32_t byte_of(uint32_t word, int i) { return word >> (8 * i) & 0xffu; }
/* The lower or upper two bytes, i = 0 or 1, twice. */
XPU_DEVICE uint32_t twice_of(uint32_t word, int i)
{
    return i ? (word & 0xffff0000u) | word >> 16 : (word & 0xffffu) | word << 16;
}
#endif

/* ---- dot products of four 8-bit numbers, the first in the lowest byte ---- */

#ifndef XPU_NATIVE_DOT4
XPU_DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c)
{
    for (int i = 0; i < 32; i += 8) c += (int32_t)(int8_t)(a >> i) * (int32_t)(int8_t)(b >> i);
    return c;
}

XPU_DEVICE int32_t dot4_us(uint32_t a, uint32_t b, int32_t c)
{
    for (int i = 0; i < 32; i += 8) c += (int32_t)(uint8_t)(a >> i) * (int32_t)(int8_t)(b >> i);
    return c;
}
#endif

/* ---- wave verbs: every lane of the wave calls them, at the same place ---- */

namespace simt {
/* The type of a value, for a backend on which `g[i]` is an object that stands for one. */
template <class T> struct value_of { using type = T; };
template <class T> using value = typename value_of<T>::type;

template <class T> struct words_of {
    static_assert(sizeof(T) % 4 == 0 && sizeof(T) <= 16 && __is_trivially_copyable(T),
                  "a wave verb takes a value of 4, 8, 12 or 16 bytes");
    uint32_t word[sizeof(T) / 4];
};
/* What lane `from` has of a value, word by word. */
template <class T> XPU_DEVICE T fetched(T v, int from XPU_SITE_TYPE)
{
    words_of<T> all = bits<words_of<T>>(v);
    for (unsigned i = 0; i < sizeof(T) / 4; ++i) all.word[i] = simt::exchange(all.word[i], from XPU_SITE_PASSED);
    return bits<T>(all);
}
} // namespace simt

/* The value of another lane. */
template <class T> XPU_DEVICE simt::value<T> shuffle(T v, int from XPU_SITE_PARAMETER)
{
    const simt::value<T> own = static_cast<T &&>(v);
    return simt::fetched(own, from XPU_SITE("shuffle"));
}

/* The value of lane `lane() ^ mask`. */
template <class T> XPU_DEVICE simt::value<T> shuffle_xor(T v, int mask XPU_SITE_PARAMETER)
{
    const simt::value<T> own = static_cast<T &&>(v);
    return simt::fetched(own, lane() ^ mask XPU_SITE("shuffle_xor"));
}

/* The value of the lane `distance` further up; a lane's own where there is none. */
template <class T> XPU_DEVICE simt::value<T> shuffle_down(T v, int distance XPU_SITE_PARAMETER)
{
    const simt::value<T> own = static_cast<T &&>(v);
    const int from = lane() + distance;
    return simt::fetched(own, from < wave_width ? from : lane() XPU_SITE("shuffle_down"));
}

/* Every lane gets the sum of its group of W neighbours: the same bits in all of them. */
template <int W, class T> XPU_DEVICE simt::value<T> group_sum(T v XPU_SITE_PARAMETER)
{
    static_assert(W >= 1 && W <= 32 && (W & (W - 1)) == 0, "W is a power of two, at most 32");
    simt::value<T> sum = static_cast<T &&>(v);
    for (int mask = W / 2; mask; mask /= 2) sum = sum + simt::fetched(sum, lane() ^ mask XPU_SITE("group_sum"));
    return sum;
}

template <class T> XPU_DEVICE simt::value<T> wave_sum(T v XPU_SITE_PARAMETER)
{
    simt::value<T> sum = static_cast<T &&>(v);
    for (int mask = wave_width / 2; mask; mask /= 2)
        sum = sum + simt::fetched(sum, lane() ^ mask XPU_SITE("wave_sum"));
    return sum;
}

template <class T> XPU_DEVICE simt::value<T> wave_max(T v XPU_SITE_PARAMETER)
{
    simt::value<T> most = static_cast<T &&>(v);
    for (int mask = wave_width / 2; mask; mask /= 2)
        most = max(most, simt::fetched(most, lane() ^ mask XPU_SITE("wave_max")));
    return most;
}

/* Whether the predicate holds in any lane. */
XPU_DEVICE bool wave_any(bool p XPU_SITE_PARAMETER)
{
    uint32_t found = p;
    for (int mask = wave_width / 2; mask; mask /= 2)
        found |= simt::exchange(found, lane() ^ mask XPU_SITE("wave_any"));
    return found != 0;
}

/* ---- asynchronous copy, where a target has none ---- */

#ifndef XPU_NATIVE_COPY
template <class S, class G>
XPU_DEVICE void copy_async(const shared<S> &to, int64_t si, const global<G> &from, int64_t gi, int bytes)
{
    if (bytes == 16) to.template store<vec<uint32_t, 4>>(si, from.template load<vec<uint32_t, 4>>(gi));
    else if (bytes == 8) to.template store<vec<uint32_t, 2>>(si, from.template load<vec<uint32_t, 2>>(gi));
    else to.template store<uint32_t>(si, from.template load<uint32_t>(gi));
}
XPU_DEVICE void copy_commit() {}
template <int N> XPU_DEVICE void copy_wait() {}
#endif

} // namespace xpu

#include "xpu_simt_matrix.h"

#include "xpu_simt_lines.h"

#endif
