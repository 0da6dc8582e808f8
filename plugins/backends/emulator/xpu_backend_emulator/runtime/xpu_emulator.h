/* Between a kernel and the runtime of the emulator: what is exported, and what the prelude calls.
 *
 * Both are compiled into one shared object, so nothing here is visible from outside but the
 * descriptor that bears the entry's name. The layouts are read by device.py.
 */
#ifndef XPU_EMULATOR_H
#define XPU_EMULATOR_H

namespace xpu {
namespace emulator {

/* Memory that a kernel was given. `written` has one byte for each, 0 until something wrote it; it is
 * null for memory that came from outside. */
struct buffer {
    unsigned char *base;
    int64_t bytes;
    unsigned char *written;
    const char *name;
};

/* What is known of one byte of shared memory. Times are readings of the runtime's clock. */
struct cell {
    uint32_t write_time, read_time;
    uint16_t writer, reader;
};

/* A shared array of the block. */
struct array {
    int64_t offset, bytes;
    const char *name;
};

/* Where a verb stands in the source. */
struct site {
    const char *verb, *file;
    int line;
};

enum check : int32_t {
    none, load_bounds, store_bounds, misaligned, unwritten, race, divergent_barrier, divergent_verb,
    no_lane, partial_wave, in_flight, left_behind, no_copy, no_element, undefined, unpublished, being_multiplied,
    never_ended
};

/* The first fault of a launch. */
struct fault {
    int32_t check, thread;
    int32_t block[3];
    uint64_t address; /* of the instruction behind the access, 0 when there is none */
    char text[360];
};

/* An asynchronous copy on its way. It stands at the number of the word of shared memory that it begins
 * at, for there is one at most; `next` is the one that the same thread started before, -1 without one. */
struct flight {
    int32_t next, group, bytes;
};

/* One launch. The host supplies all memory: `stacks` has room for `threads` stacks of `stack_bytes`. */
struct launch {
    const buffer *buffers;
    const int64_t *sizes;
    int32_t grid[3], threads;
    unsigned char *stacks;
    int64_t stack_bytes, dynamic_shared_bytes;
    unsigned char *shared;
    cell *cells;
    flight *flights;
    unsigned char *threads_memory; /* threads * thread_bytes */
    fault *result;
};

/* What the entry's symbol is. Bit i of `written` says that the kernel may write its array i. */
struct kernel {
    int32_t version, wave, threads, is_checked, buffers, sizes, thread_bytes, written;
    const char *parameters;
    void (*body)(const launch *);
    int64_t (*static_shared_bytes)();
    void (*run)(const kernel *, const launch *);
};

/* What the running thread sees. Launches of one object never overlap, so there is one of it. */
struct state {
    int32_t thread, lane, wave, threads;
    int32_t block[3], grid[3];
    unsigned char *shared;
    cell *cells;
    const launch *launched;
    int64_t static_bytes, hidden_sums; /* the latter of all threads of the block */
};

/* Sums of products in flight, where the kernel has them; they are made elsewhere. */
struct hidden {
    const unsigned char *sums;
    int32_t bytes;
    site at; /* of the latest product */
};

/* So many of a thread are watched: with one more the oldest product counts as through, and sums are not hidden. */
enum : int { most_products = 64, most_sums = 32 };

/* Of products with lines: how many a thread has in flight, and sums, of which `shown` is in the kernel's place just
 * now; when it published lines, last and last before a barrier; and which verbs it called, where and with what, which is
 * the same in all waves of a block, and the last of them. */
struct multiplying {
    int32_t products, sums, shown;
    uint32_t published, published_before;
    uint64_t called;
    site at;
    hidden *made;
};

#define XPU_HIDDEN __attribute__((visibility("hidden")))
extern XPU_HIDDEN state now;

XPU_HIDDEN int64_t place(int64_t bytes);
XPU_HIDDEN int64_t static_shared_bytes();
XPU_HIDDEN void run(const kernel *, const launch *);
extern XPU_HIDDEN const int32_t thread_bytes;

XPU_HIDDEN uint32_t exchange(uint32_t word, int from, site at);
XPU_HIDDEN void converge(int64_t same, site at, bool orders_memory);
XPU_HIDDEN void barrier(site at);
XPU_HIDDEN void copy_later(const array &to, int64_t at, const unsigned char *from, int bytes);
XPU_HIDDEN void copy_commit();
XPU_HIDDEN void copy_wait(int left);

/* Products with lines. All lanes of a wave call a verb, with the same thing. A product of some lines begins, and returns
 * when; what it reads has been published; what it reads has not been written since. */
XPU_HIDDEN multiplying &own_products();
XPU_HIDDEN void publish_lines();
XPU_HIDDEN void line_verb(int64_t same, site at);
XPU_HIDDEN uint32_t begin_product(const array &of, int64_t start, int count, int k, site at);
XPU_HIDDEN void line_read(const array &of, int64_t at, int bytes, int element, site product);
XPU_HIDDEN void line_kept(const array &of, int64_t at, int bytes, int element, uint32_t since, site product);
/* Some sums are used, which may not be hidden ones. */
XPU_HIDDEN void sums_used(const void *sums);
/* Ends the launch: the rows of a product changed before it was through. */
[[noreturn]] XPU_HIDDEN void bad_rows(site at);

/* Checks of shared memory; they return when all is well. */
XPU_HIDDEN void shared_read(const array &of, int64_t at, int bytes, int element);
XPU_HIDDEN void shared_write(const array &of, int64_t at, int bytes, int element);
constexpr int64_t beyond = (int64_t)1 << 62; /* a position in bytes that no array has */
/* Ends the launch; `what` is one of load_bounds, store_bounds, misaligned, unwritten. */
[[noreturn]] XPU_HIDDEN void bad_access(check what, const char *name, int64_t at, int64_t of, int bytes,
                                        int element);
/* End the launch: a copy of so many bytes, an element of so few. */
[[noreturn]] XPU_HIDDEN void bad_copy(int bytes);
[[noreturn]] XPU_HIDDEN void bad_element(int index, int count);

} // namespace emulator
} // namespace xpu

#endif
