/* What is known of every byte of shared memory, and what is looked for when a thread comes to it; the
 * asynchronous copies that fill it. The end of runtime.cpp, whose threads and clock it reads.
 */
#ifndef XPU_EMULATOR_SHARED_MEMORY_H
#define XPU_EMULATOR_SHARED_MEMORY_H

namespace xpu {
namespace emulator {

namespace {

bool is_before(uint32_t time, int32_t thread)
{
    return time < block_start || (thread / wave_width == now.wave && time < wave_start[now.wave]);
}

[[noreturn]] __attribute__((noinline)) void bad_cell(check what, const array &of, int64_t at, int element,
                                                     const void *address, const char *own, const char *their,
                                                     int32_t other)
{
    const long long index = at / element;
    if (has_failed && of.offset + at != suspect) stop();
    if (what == race && other == now.thread)
        record(race, now.thread, address, "%s[%lld]: it %s what another thread %s, with no barrier between", of.name,
               index, own, their);
    else if (what == race)
        record(race, now.thread, address, "%s[%lld]: it %s what thread %d %s, with no barrier between", of.name, index,
               own, other, their);
    else if (what == in_flight)
        record(what, now.thread, address, "%s[%lld]: it %s what a copy of thread %d still fills; copy_wait comes first",
               of.name, index, own, other);
    else
        record(what, now.thread, address, "%s[%lld]: no thread of the block wrote it", of.name, index);
    suspect = what == unwritten ? of.offset + at : -1;
    stop();
}

/* What a write by the running thread must come after. */
void check_write(const array &of, int64_t at, int bytes, int element, const void *address)
{
    const int32_t self = now.thread;
    for (int64_t i = at; i < at + bytes; ++i) {
        const cell &c = now.cells[of.offset + i];
        if (c.write_time == not_yet) bad_cell(in_flight, of, i, element, address, "writes", "", c.writer);
        if (c.writer != self && !is_before(c.write_time, c.writer))
            bad_cell(race, of, i, element, address, "writes", "wrote", c.writer);
        const int32_t reader = c.reader & thread_bits;
        const bool only_self = c.reader == self;
        if (!only_self && ((c.reader & several_waves) ? c.read_time >= block_start : !is_before(c.read_time, reader)))
            bad_cell(race, of, i, element, address, "writes", "read", reader);
    }
}

/* `place` counts from the beginning of shared memory. */
void mark_written(int64_t place, int bytes, uint32_t time)
{
    for (int64_t i = place; i < place + bytes; ++i) {
        cell &c = now.cells[i];
        c.write_time = time;
        c.writer = (uint16_t)now.thread;
    }
}

void note_reader(cell &c)
{
    const int32_t self = now.thread;
    const int32_t reader = c.reader & thread_bits;
    if (c.read_time < block_start) c.reader = (uint16_t)self;
    else if (c.reader & several_waves) {}
    else if (reader / wave_width != now.wave) c.reader |= several_waves;
    else if (c.read_time < wave_start[now.wave]) c.reader = (uint16_t)self;
    else if (c.reader != self) c.reader |= several;
    c.read_time = ticks;
}

} // namespace

void shared_read(const array &of, int64_t at, int bytes, int element)
{
    const void *address = __builtin_return_address(0);
    cell *cells = now.cells + of.offset;
    for (int64_t i = at; i < at + bytes; ++i) {
        cell &c = cells[i];
        if (c.write_time == not_yet) bad_cell(in_flight, of, i, element, address, "reads", "", c.writer);
        if (c.write_time < block_first) {
            note_reader(c);
            bad_cell(unwritten, of, i, element, address, "", "", 0);
        }
        if (c.writer != now.thread && !is_before(c.write_time, c.writer))
            bad_cell(race, of, i, element, address, "reads", "wrote", c.writer);
        if (c.read_time != ticks || c.reader != now.thread) note_reader(c);
    }
}

void shared_write(const array &of, int64_t at, int bytes, int element)
{
    check_write(of, at, bytes, element, __builtin_return_address(0));
    mark_written(of.offset + at, bytes, ticks);
}

void bad_access(check what, const char *name, int64_t at, int64_t of, int bytes, int element)
{
    const void *address = __builtin_return_address(0);
    /* Floor: an index below 0 stays below 0. */
    const long long index = (at - (at % element + element) % element) / element, count = of / element;
    if (what == misaligned)
        record(what, now.thread, address, "%s[%lld]: an access of %d bytes does not lie at its alignment", name, index,
               bytes);
    else if (what == unwritten)
        record(what, now.thread, address, "%s[%lld]: nothing wrote it", name, index);
    else if (at >= beyond / 2 || at <= -beyond / 2)
        record(what, now.thread, address, "%s, which has %lld elements of %d bytes, at an index that no array has", name,
               count, element);
    else
        record(what, now.thread, address, "%s[%lld], which has %lld elements of %d bytes; it takes %d bytes there", name,
               index, count, element, bytes);
    stop();
}

void bad_copy(int bytes)
{
    record(no_copy, now.thread, __builtin_return_address(0), "copy_async takes 4, 8 or 16 bytes, given %d", bytes);
    stop();
}

/* ---- asynchronous copies ---- */

void copy_later(const array &to, int64_t at, const unsigned char *from, int bytes)
{
    /* It may arrive at any time from now on: until the thread has waited for it nobody may look. */
    check_write(to, at, bytes, bytes, __builtin_return_address(0));
    fibre &own = fibres[now.thread];
    const int64_t place = to.offset + at;
    memcpy(now.shared + place, from, bytes);
    mark_written(place, bytes, not_yet);
    now.launched->flights[place / 4] = {own.newest_flight, own.groups, bytes};
    own.newest_flight = (int32_t)(place / 4);
}

void copy_commit() { ++fibres[now.thread].groups; }

void copy_wait(int left)
{
    fibre &own = fibres[now.thread];
    flight *flights = now.launched->flights;
    int32_t *link = &own.newest_flight; /* the latest groups come first */
    while (*link >= 0 && flights[*link].group >= own.groups - left) link = &flights[*link].next;
    for (int32_t i = *link; i >= 0; i = flights[i].next) mark_written((int64_t)i * 4, flights[i].bytes, ticks);
    *link = -1;
}

} // namespace emulator
} // namespace xpu

#endif
