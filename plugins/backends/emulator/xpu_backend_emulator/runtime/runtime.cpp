/* Runs the threads of a block as fibres on one thread of the host, and looks at how they meet.
 *
 * Threads of a wave run one after another until each of them waits or has ended: one pass. A verb of the
 * wave needs all its lanes, a barrier all threads of the block. So after a pass the lanes of a wave must
 * all stand at the same place, and then the waves of the block; anything else can never go on and is a
 * fault. A fault leaves the fibres where they are: their stacks are the host's, nothing on them has to
 * be released.
 */
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "switch.h"
#include "xpu_emulator.h"

namespace xpu {
namespace emulator {

state now;

namespace {

enum kind : uint8_t { at_verb, at_barrier, ended, held };

enum : int { most_waves = 64 };

struct fibre {
    void *stack_pointer;
    site at;
    int64_t same; /* what all lanes of the wave must have brought to this place */
    kind stands;
    bool orders_memory;
    uint32_t exchanges, word[2];
    int32_t groups, newest_flight;
    multiplying multiplied;
};

constexpr site nowhere = {"", "", 0};

/* `cell::reader` holds a thread and, above it, whether others read too. */
enum : uint16_t { thread_bits = 0x3fff, several = 0x4000, several_waves = 0x8000 };
constexpr uint32_t not_yet = 0xffffffffu; /* write time of what a copy will still bring */

fibre *fibres;
void *scheduler;
const kernel *running;
bool has_failed;
/* The place in shared memory of a read that came before any write, -1 without one. The reader is held
 * and the others go on for a while: if one of them writes there, what is missing is a barrier. */
int64_t suspect = -1;
int32_t wave_width;
/* The clock moves when threads meet. What was done before `block_start` is ordered before what any
 * thread of the block does now; before `wave_start`, what lanes of the same wave do now. */
uint32_t ticks, block_first, block_start, wave_start[most_waves];
int64_t placed;

__attribute__((format(printf, 4, 5))) void record(check what, int32_t thread, const void *address,
                                                  const char *text, ...)
{
    if (has_failed && what != race) return; /* the first one counts, or what explains it */
    fault &f = *now.launched->result;
    has_failed = true;
    f.check = what;
    f.thread = thread;
    for (int i = 0; i < 3; ++i) f.block[i] = now.block[i];
    f.address = (uint64_t)address;
    va_list values;
    va_start(values, text);
    vsnprintf(f.text, sizeof f.text, text, values);
    va_end(values);
}

int32_t lanes_of(int32_t wave)
{
    const int32_t left = now.threads - wave * wave_width;
    return left < wave_width ? left : wave_width;
}

/* Hands over to the next lane of the wave; the last one hands over to the scheduler. */
void wait()
{
    fibre &own = fibres[now.thread];
    if (now.lane + 1 < lanes_of(now.wave)) {
        ++now.lane;
        ++now.thread;
        xpu_emulator_switch(&own.stack_pointer, fibres[now.thread].stack_pointer);
    } else {
        xpu_emulator_switch(&own.stack_pointer, scheduler);
    }
}

/* Ends the launch; while a suspect is looked into, the running thread alone. */
[[noreturn]] void stop()
{
    fibres[now.thread].stands = held;
    fibres[now.thread].at = nowhere;
    if (suspect >= 0) wait();
    void *unused;
    xpu_emulator_switch(&unused, scheduler);
    __builtin_unreachable();
}

const char *name_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

void begin()
{
    running->body(now.launched);
    fibre &own = fibres[now.thread];
    int copies = 0;
    for (int32_t i = own.newest_flight; i >= 0; i = now.launched->flights[i].next) ++copies;
    if (copies) {
        record(left_behind, now.thread, nullptr, "it ended with %d copies that it never waited for", copies);
        stop();
    }
    if (own.multiplied.sums) {
        const site &at = own.multiplied.made[0].at;
        record(never_ended, now.thread, nullptr, "it ended with sums that it called no multiply_end for, of %s:%d",
               name_of(at.file), at.line);
        stop();
    }
    own.stands = ended;
    own.at = nowhere;
    wait();
    __builtin_unreachable();
}

bool is_same(const char *a, const char *b) { return a == b || strcmp(a, b) == 0; }

bool are_together(const fibre &a, const fibre &b)
{
    return a.stands == b.stands && a.at.line == b.at.line && is_same(a.at.verb, b.at.verb)
        && is_same(a.at.file, b.at.file);
}

void describe(char (&text)[120], const fibre &f)
{
    if (f.stands == ended) snprintf(text, sizeof text, "has ended");
    else snprintf(text, sizeof text, "waits at %s (%s:%d)", f.at.verb, name_of(f.at.file), f.at.line);
}

/* Two threads that can never meet. The one that waits is named first. */
void apart(int32_t a, int32_t b)
{
    if (fibres[a].stands == ended || (fibres[a].stands == at_barrier && fibres[b].stands == at_verb)) {
        const int32_t other = a;
        a = b;
        b = other;
    }
    char first[120], second[120];
    describe(first, fibres[a]);
    describe(second, fibres[b]);
    const check what = fibres[a].stands == at_verb ? divergent_verb : divergent_barrier;
    record(what, a, nullptr, "it %s, thread %d %s", first, b, second);
}

/* Two lanes that meet, and ask for different things where there is one for the whole wave. */
void unequal(int32_t a, int32_t b)
{
    const site &at = fibres[b].at;
    record(divergent_verb, b, nullptr, "%s is given something else than in thread %d, at %s:%d", at.verb, a,
           name_of(at.file), at.line);
}

/* Two waves that have called verbs of lines otherwise, where all waves of the block do it together. */
void unlike(int32_t thread)
{
    const site &first = fibres[0].multiplied.at, &other = fibres[thread].multiplied.at, &at = other.line ? other : first;
    record(divergent_verb, thread, nullptr,
           "its wave has called verbs of lines otherwise than that of thread 0: other ones, elsewhere or with other "
           "lines; the last before they meet is %s, at %s:%d", at.verb, name_of(at.file), at.line);
}

/* Runs a wave until its lanes wait at a barrier or have ended. */
void run_wave(int32_t wave)
{
    const int32_t first = wave * wave_width, lanes = lanes_of(wave);
    for (;;) {
        now.wave = wave;
        now.lane = 0;
        now.thread = first;
        xpu_emulator_switch(&scheduler, fibres[first].stack_pointer);
        if (has_failed && suspect < 0) return;
        for (int32_t i = first + 1; i < first + lanes; ++i) {
            if (!are_together(fibres[first], fibres[i])) return apart(first, i);
            if (fibres[first].stands == at_verb && fibres[first].same != fibres[i].same) return unequal(first, i);
        }
        if (fibres[first].stands != at_verb) return;
        if (fibres[first].orders_memory) wave_start[wave] = ++ticks;
    }
}

void run_block()
{
    const int32_t waves = (now.threads + wave_width - 1) / wave_width;
    memset(now.shared, 0xff, now.static_bytes + now.launched->dynamic_shared_bytes);
    block_first = block_start = ++ticks;
    now.hidden_sums = 0;
    for (int32_t i = 0; i < now.threads; ++i) {
        fibres[i].exchanges = 0;
        fibres[i].groups = 0;
        fibres[i].newest_flight = -1;
        fibres[i].multiplied = {0, 0, -1, 0, 0, 0, nowhere, nullptr};
        /* Not all at the same distance from a page, or they would share a few lines of the cache. */
        fibres[i].stack_pointer = prepared(now.launched->stacks + (i + 1) * now.launched->stack_bytes - i % 32 * 128, begin);
    }
    for (;;) {
        for (int32_t wave = 0; wave < waves; ++wave) {
            run_wave(wave);
            if (has_failed && suspect < 0) return;
        }
        if (has_failed) return;
        for (int32_t wave = 1; wave < waves; ++wave) {
            if (!are_together(fibres[0], fibres[wave * wave_width])) return apart(0, wave * wave_width);
            if (fibres[0].multiplied.called != fibres[wave * wave_width].multiplied.called)
                return unlike(wave * wave_width);
        }
        if (fibres[0].stands == ended) return;
        block_start = ++ticks;
    }
}

void arrive(kind stands, const site &at, bool orders_memory, int64_t same)
{
    fibre &own = fibres[now.thread];
    own.stands = stands;
    own.at = at;
    own.orders_memory = orders_memory;
    own.same = same;
    if (stands == at_verb && lanes_of(now.wave) < wave_width) {
        record(partial_wave, now.thread, nullptr,
               "%s in a wave of %d lanes, the width is %d; make the threads of a block a multiple of it, at %s:%d",
               at.verb, lanes_of(now.wave), wave_width, name_of(at.file), at.line);
        stop();
    }
    wait();
}

} // namespace

const int32_t thread_bytes = sizeof(fibre);

int64_t place(int64_t bytes)
{
    const int64_t at = placed;
    placed = (placed + bytes + 15) / 16 * 16;
    return at;
}

int64_t static_shared_bytes() { return placed; }

void run(const kernel *what, const launch *how)
{
    running = what;
    fibres = (fibre *)how->threads_memory;
    wave_width = what->wave;
    has_failed = false;
    suspect = -1;
    ticks = 0;
    memset(wave_start, 0, sizeof wave_start);
    now.launched = how;
    now.threads = how->threads;
    now.shared = how->shared;
    now.cells = how->cells;
    now.static_bytes = placed;
    memcpy(now.grid, how->grid, sizeof now.grid);
    for (now.block[2] = 0; now.block[2] < now.grid[2]; ++now.block[2])
        for (now.block[1] = 0; now.block[1] < now.grid[1]; ++now.block[1])
            for (now.block[0] = 0; now.block[0] < now.grid[0]; ++now.block[0]) {
                run_block();
                if (has_failed) return;
            }
}

uint32_t exchange(uint32_t word, int from, site at)
{
    if (from < 0 || from >= wave_width) {
        record(no_lane, now.thread, nullptr, "%s takes lane %d, the lanes are 0 to %d, at %s:%d", at.verb, from,
               wave_width - 1, name_of(at.file), at.line);
        stop();
    }
    fibre &own = fibres[now.thread];
    /* Two places in turn: a lane may come to the next exchange before another has taken its word. */
    const uint32_t turn = own.exchanges++ & 1;
    own.word[turn] = word;
    arrive(at_verb, at, false, 0);
    return fibres[now.thread - now.lane + from].word[turn];
}

void converge(int64_t same, site at, bool orders_memory) { arrive(at_verb, at, orders_memory, same); }

void barrier(site at) { arrive(at_barrier, at, false, 0); }

} // namespace emulator
} // namespace xpu

#include "shared_memory.h"
#include "lines.h"
#include "sanitizer.h"
