/* How a kernel reaches memory on the emulator: through classes that look at every access, or, without
 * checks, through pointers. xpu_simt.h includes it.
 */
#ifndef XPU_EMULATOR_MEMORY_H
#define XPU_EMULATOR_MEMORY_H

namespace xpu {

namespace simt {
template <class T, class U> struct like { using type = U; };
template <class T, class U> struct like<const T, U> { using type = const U; };
template <class T> struct is_const { static constexpr bool value = false; };
template <class T> struct is_const<const T> { static constexpr bool value = true; };
template <class T> struct plain { using type = T; };
template <class T> struct plain<const T> { using type = T; };
} // namespace simt

namespace emulator {

/* The two kinds of memory: how a position in bytes is checked and reached. */
struct global_space {
    const buffer *of;

    unsigned char *reach(int64_t at) const { return of->base + at; }

    template <class V> void look(bool is_store, int64_t at, int element, int alignment) const
    {
        if (__builtin_expect((uint64_t)at > (uint64_t)(of->bytes - (int64_t)sizeof(V)) || of->bytes < (int64_t)sizeof(V), 0))
            bad_access(is_store ? store_bounds : load_bounds, of->name, at, of->bytes, sizeof(V), element);
        if (__builtin_expect((uintptr_t)(of->base + at) % (uintptr_t)alignment != 0, 0))
            bad_access(misaligned, of->name, at, of->bytes, sizeof(V), element);
    }
    template <class V> void reading(int64_t at, int element, int alignment) const
    {
        look<V>(false, at, element, alignment);
        if (!of->written) return;
        for (int i = 0; i < (int)sizeof(V); ++i)
            if (__builtin_expect(!of->written[at + i], 0))
                bad_access(unwritten, of->name, at + i, of->bytes, sizeof(V), element);
    }
    template <class V> void writing(int64_t at, int element, int alignment) const
    {
        look<V>(true, at, element, alignment);
        if (of->written) __builtin_memset(of->written + at, 1, sizeof(V));
    }
};

struct shared_space {
    const array *of;

    unsigned char *reach(int64_t at) const { return now.shared + of->offset + at; }

    template <class V> void look(bool is_store, int64_t at, int element, int alignment) const
    {
        if (__builtin_expect((uint64_t)at > (uint64_t)(of->bytes - (int64_t)sizeof(V)) || of->bytes < (int64_t)sizeof(V), 0))
            bad_access(is_store ? store_bounds : load_bounds, of->name, at, of->bytes, sizeof(V), element);
        if (__builtin_expect((of->offset + at) % alignment != 0, 0))
            bad_access(misaligned, of->name, at, of->bytes, sizeof(V), element);
    }
    template <class V> void reading(int64_t at, int element, int alignment) const
    {
        look<V>(false, at, element, alignment);
        shared_read(*of, at, sizeof(V), element);
    }
    template <class V> void writing(int64_t at, int element, int alignment) const
    {
        look<V>(true, at, element, alignment);
        shared_write(*of, at, sizeof(V), element);
    }
};

#if XPU_EMULATOR_CHECKS
/* One element: read when it is used as a value, written when something is assigned to it. It cannot be
 * kept: `auto v = g[i];` would read later than it says, so it does not compile when v is used. */
template <class T, class Space> class element {
    Space space;
    int64_t at;

    T get() const
    {
        space.template reading<T>(at, sizeof(T), alignof(T));
        T value;
        __builtin_memcpy(&value, space.reach(at), sizeof(T));
        return value;
    }
    T put(T value) const
    {
        space.template writing<T>(at, sizeof(T), alignof(T));
        __builtin_memcpy(space.reach(at), &value, sizeof(T));
        return value;
    }

  public:
    element(Space s, int64_t a) : space(s), at(a) {}
    element(const element &) = delete;
    operator T() && { return get(); }
    T operator=(T value) && { return put(value); }
    T operator=(element &&other) && { return put(other.get()); }
    template <class U> T operator+=(U v) && { return put((T)(get() + static_cast<U &&>(v))); }
    template <class U> T operator-=(U v) && { return put((T)(get() - static_cast<U &&>(v))); }
    template <class U> T operator*=(U v) && { return put((T)(get() * static_cast<U &&>(v))); }
    template <class U> T operator/=(U v) && { return put((T)(get() / static_cast<U &&>(v))); }
    template <class U> T operator&=(U v) && { return put((T)(get() & static_cast<U &&>(v))); }
    template <class U> T operator|=(U v) && { return put((T)(get() | static_cast<U &&>(v))); }
    template <class U> T operator^=(U v) && { return put((T)(get() ^ static_cast<U &&>(v))); }
    template <class U> T operator<<=(U v) && { return put((T)(get() << static_cast<U &&>(v))); }
    template <class U> T operator>>=(U v) && { return put((T)(get() >> static_cast<U &&>(v))); }
    template <class U> T operator%=(U v) && { return put((T)(get() % static_cast<U &&>(v))); }
    T operator++(int) && { const T before = get(); put((T)(before + 1)); return before; }
    T operator--(int) && { const T before = get(); put((T)(before - 1)); return before; }
    T operator++() && { return put((T)(get() + 1)); }
    T operator--() && { return put((T)(get() - 1)); }
};

/* Elements of type T in one kind of memory, from a position in bytes on. */
template <class T, class Space> struct elements {
    using value = typename simt::plain<T>::type;
    Space space;
    int64_t start;

    elements(Space s, int64_t a) : space(s), start(a) {}
    template <class To> To moved(int64_t by) const { return To(space, position(by)); }
    int64_t position(int64_t i) const
    {
        int64_t at;
        if (__builtin_expect(__builtin_mul_overflow(i, (int64_t)sizeof(T), &at)
                                 || __builtin_add_overflow(start, at, &at), 0))
            return i < 0 ? -beyond : beyond; /* what it wraps around to might be inside */
        return at;
    }

    template <class V> V load(int64_t i) const
    {
        typename simt::plain<V>::type made;
        space.template reading<V>(position(i), sizeof(T), alignof(V));
        __builtin_memcpy(&made, space.reach(position(i)), sizeof(V));
        return made;
    }
    template <class V> void store(int64_t i, const V &v) const
    {
        static_assert(!simt::is_const<T>::value, "this memory is only read");
        space.template writing<V>(position(i), sizeof(T), alignof(V));
        __builtin_memcpy(space.reach(position(i)), &v, sizeof(V));
    }
};

template <class T, class Space> struct memory : elements<T, Space> {
    using elements<T, Space>::elements;
    element<T, Space> operator[](int64_t i) const { return {this->space, this->position(i)}; }
};
template <class T, class Space> struct memory<const T, Space> : elements<const T, Space> {
    using elements<const T, Space>::elements;
    T operator[](int64_t i) const { return this->template load<T>(i); }
};
#else
template <class T, class Space> struct memory {
    T *pointer;

    memory(Space s, int64_t a) : pointer((T *)(void *)s.reach(a)) {}
    explicit memory(T *p) : pointer(p) {}
    template <class To> To moved(int64_t by) const { return To((decltype(To::pointer))(void *)(pointer + by)); }
    T &operator[](int64_t i) const { return pointer[i]; }
    template <class V> V load(int64_t i) const
    {
        typename simt::plain<V>::type made;
        __builtin_memcpy(&made, pointer + i, sizeof(V));
        return made;
    }
    template <class V> void store(int64_t i, const V &v) const { __builtin_memcpy(pointer + i, &v, sizeof(V)); }
};
#endif
} // namespace emulator

} // namespace xpu

#endif
