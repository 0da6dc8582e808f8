/* A pool of persistent worker threads that runs kernels of the dialect `c`.
 *
 * A phase is a number of slots, one for each worker. The caller runs slot 0; the other
 * slots are claimed by whichever thread is awake, the caller among them once it has run
 * its own. So no launch ever waits for a thread that sleeps or that the machine has taken
 * away: it waits only for slots that somebody is running. One launch at a time owns the
 * pool; a second caller does not wait for it, but runs all its slots by itself.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "xpu_c.h"

enum {
    LINE = 64,
    PAUSES = 32, /* between two looks at the clock */
};
static const int64_t POLITE_NS = 5000; /* of spinning, before the core is offered */
static const size_t HUGE_PAGE = (size_t)2 << 20;
static const size_t STACK_BYTES = (size_t)8 << 20; /* musl would give 128 KiB */

typedef void (*xpu_kernel)(const xpu_team *, void *const *, const int64_t *);
typedef int64_t (*xpu_scratch)(const int64_t *, int32_t);

/* One packed launch: `words` holds the buffers' addresses, then the sizes. */
typedef struct xpu_plan {
    xpu_kernel kernel;
    xpu_scratch scratch;
    int64_t phases, workers, buffers;
    int64_t words[];
} xpu_plan;

enum { XPU_DONE = 0, XPU_NO_MEMORY = 1 };

typedef struct job {
    const xpu_plan *plan;
    void *scratch;
    int32_t phase;
    _Alignas(LINE) int64_t next;
} job;

/* Everything that threads share. Each word that many of them hit has a line of its own. */
static struct {
    _Alignas(LINE) atomic_int is_busy;   /* a launch owns the pool */
    _Alignas(LINE) atomic_int unclaimed; /* slots of the phase that nobody runs yet */
    _Alignas(LINE) atomic_int running;   /* slots of the phase that are not done, slot 0 apart */
    _Alignas(LINE) atomic_int sleepers;  /* threads that wait for a slot in the kernel */
    _Alignas(LINE) atomic_int is_caller_asleep;
    _Alignas(LINE) job job;              /* written while `unclaimed` and `running` are 0 */
    int threads;                         /* the rest belongs to whoever owns the pool */
    void *arena;
    size_t arena_bytes;
} pool;

/* Set before the first launch; see `xpu_cpu_spin_ns`. */
static int64_t spin_ns = 200000;

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Spin while the word holds `value`, for a bounded time; gives what it holds then. Soon
 * the core is offered to whoever else may want it, the awaited thread above all: without
 * that, launches on a machine with one busy core took twice the time of one worker. */
static int spin(atomic_int *word, int value) {
    int found = atomic_load_explicit(word, memory_order_acquire);
    if (found != value) return found;
    const int64_t end = now_ns() + spin_ns;
    for (;;) {
        for (int i = 0; i < PAUSES; i++) {
            relax();
            found = atomic_load_explicit(word, memory_order_acquire);
            if (found != value) return found;
        }
        const int64_t left = end - now_ns();
        if (left <= 0) return found;
        if (left < spin_ns - POLITE_NS) sched_yield();
    }
}

/* Sleep while the word holds `value`; may return early. */
static void park(atomic_int *word, int value) {
#ifdef __linux__
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
#else
    (void)word, (void)value;
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
#endif
}

static void unpark(atomic_int *word, int count) {
#ifdef __linux__
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
#else
    (void)word, (void)count;
#endif
}

static void run_slot(job *j, int32_t slot) {
    const xpu_plan *p = j->plan;
    const xpu_team team = {.worker = slot, .workers = (int32_t)p->workers, .phase = j->phase,
                           .next = &j->next, .scratch = j->scratch};
    p->kernel(&team, (void *const *)p->words, p->words + p->buffers);
}

/* Claim a slot of the running phase. The job is read after the claim: it cannot change
 * before the claimed slot is done. */
static int claim(void) {
    int left = atomic_load_explicit(&pool.unclaimed, memory_order_relaxed);
    while (left > 0)
        if (atomic_compare_exchange_weak_explicit(&pool.unclaimed, &left, left - 1,
                                                  memory_order_acquire, memory_order_relaxed))
            return left;
    return 0;
}

static void finish_slot(void) {
    if (atomic_fetch_sub(&pool.running, 1) == 1 && atomic_load(&pool.is_caller_asleep))
        unpark(&pool.running, 1);
}

/* Wake two threads; each of them wakes two more while slots are left. In a virtual machine
 * waking one costs 50 us, which the caller would otherwise pay for every thread. */
static void wake(void) {
    if (atomic_load(&pool.unclaimed) && atomic_load(&pool.sleepers)) unpark(&pool.unclaimed, 2);
}

static void *work(void *unused) {
    for (;;) {
        int slot;
        while ((slot = claim()) != 0) {
            run_slot(&pool.job, slot);
            finish_slot();
        }
        if (spin(&pool.unclaimed, 0) != 0) continue;
        atomic_fetch_add(&pool.sleepers, 1);
        park(&pool.unclaimed, 0);
        atomic_fetch_sub(&pool.sleepers, 1);
        wake();
    }
    return unused;
}

/* Start threads up to `count`; with fewer than that the launch still completes. */
static void grow(int count) {
    if (pool.threads >= count) return;
    /* The interpreter's signal handlers belong on its own threads; faults stay where they are. */
    sigset_t all, before;
    sigfillset(&all);
    const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_t thread;
    while (pool.threads < count && pthread_create(&thread, &attributes, work, NULL) == 0)
        pool.threads++;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void *allocate(size_t bytes) {
    void *memory = NULL;
    if (bytes < HUGE_PAGE) return posix_memalign(&memory, LINE, bytes) ? NULL : memory;
    bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (posix_memalign(&memory, HUGE_PAGE, bytes)) return NULL;
#ifdef MADV_HUGEPAGE
    madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return memory;
}

/* Scratch for the launch that owns the pool; kept for the next one. */
static void *reserve(size_t bytes) {
    if (bytes > pool.arena_bytes) {
        free(pool.arena);
        pool.arena = allocate(bytes);
        pool.arena_bytes = pool.arena ? bytes : 0;
    }
    return pool.arena;
}

static void run_alone(const xpu_plan *plan, void *scratch) {
    job own = {.plan = plan, .scratch = scratch};
    for (; own.phase < plan->phases; own.phase++) {
        own.next = 0;
        for (int32_t slot = 0; slot < plan->workers; slot++) run_slot(&own, slot);
    }
}

static void run_together(const xpu_plan *plan, void *scratch) {
    const int others = (int)plan->workers - 1;
    grow(others);
    pool.job.plan = plan;
    pool.job.scratch = scratch;
    for (int32_t phase = 0; phase < plan->phases; phase++) {
        pool.job.phase = phase;
        pool.job.next = 0;
        atomic_store(&pool.running, others);
        atomic_store(&pool.unclaimed, others);
        wake();
        run_slot(&pool.job, 0);
        for (int slot; (slot = claim()) != 0; finish_slot()) run_slot(&pool.job, slot);
        for (int left; (left = atomic_load(&pool.running)) != 0;) {
            if (spin(&pool.running, left) != left) continue;
            atomic_store(&pool.is_caller_asleep, 1);
            park(&pool.running, left);
            atomic_store(&pool.is_caller_asleep, 0);
        }
    }
}

XPU_EXPORT int xpu_cpu_launch(const xpu_plan *plan) {
    const int64_t *sizes = plan->words + plan->buffers;
    const int64_t wanted = plan->scratch ? plan->scratch(sizes, (int32_t)plan->workers) : 0;
    if (wanted < 0) return XPU_NO_MEMORY;
    const size_t bytes = (size_t)wanted;
    void *scratch = NULL;
    int status = XPU_DONE;
    if (!atomic_exchange(&pool.is_busy, 1)) {
        if (bytes && !(scratch = reserve(bytes)))
            status = XPU_NO_MEMORY;
        else if (plan->workers > 1)
            run_together(plan, scratch);
        else
            run_alone(plan, scratch);
        atomic_store(&pool.is_busy, 0);
        return status;
    }
    if (bytes && !(scratch = allocate(bytes))) return XPU_NO_MEMORY;
    run_alone(plan, scratch);
    free(scratch);
    return status;
}

/* A kernel that does nothing: what a launch of it costs is the cost of launching. */
XPU_EXPORT void xpu_cpu_nothing(const xpu_team *team, void *const *buffers, const int64_t *sizes) {
    (void)team, (void)buffers, (void)sizes;
}

XPU_EXPORT void xpu_cpu_spin_ns(int64_t bound) { spin_ns = bound; }

XPU_EXPORT int xpu_cpu_threads(void) { return pool.threads; }

/* A forked child has none of the threads, and a launch that was under way in its parent
 * does not go on in it. Such a launch may have been replacing the arena: leave it alone. */
static void forget_after_fork(void) {
    if (atomic_exchange(&pool.is_busy, 0)) {
        pool.arena = NULL;
        pool.arena_bytes = 0;
    }
    atomic_store(&pool.unclaimed, 0);
    atomic_store(&pool.running, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.is_caller_asleep, 0);
    pool.threads = 0;
}

__attribute__((constructor)) static void begin(void) {
    pthread_atfork(NULL, NULL, forget_after_fork);
}
