/* Products with lines: who published what, what all waves of a block take alike, and what comes too early. The end of
 * runtime.cpp, whose threads and clock it reads.
 */
#ifndef XPU_EMULATOR_RUNTIME_LINES_H
#define XPU_EMULATOR_RUNTIME_LINES_H

namespace xpu {
namespace emulator {

multiplying &own_products() { return fibres[now.thread].multiplied; }

/* The clock moves here, too, so that what the thread writes next is later. */
void publish_lines()
{
    multiplying &own = own_products();
    if (own.published < block_start) own.published_before = own.published;
    own.published = ++ticks;
}

uint32_t begin_product(const array &of, int64_t start, int count, int k, site at)
{
    const void *address = __builtin_return_address(0);
    if (now.threads % 128) {
        record(partial_wave, now.thread, address, "%s is made by 128 threads together; the block has %d", at.verb,
               now.threads);
        stop();
    }
    if (start % 1024) {
        record(misaligned, now.thread, address, "%s[%lld]: lines begin at a multiple of 1024 bytes", of.name,
               (long long)start / 2);
        stop();
    }
    multiplying &own = own_products();
    const uint64_t what = (uint64_t)(of.offset + start) << 32 | (uint64_t)count << 16 | (uint64_t)(uint16_t)k;
    own.taken = (own.taken ^ what ^ (uint64_t)at.line << 20) * 0x9e3779b97f4a7c15u;
    own.at = at;
    return ++ticks;
}

void line_read(const array &of, int64_t at, int bytes, int element)
{
    for (int64_t i = at; i < at + bytes; ++i) {
        const cell &c = now.cells[of.offset + i];
        const multiplying &their = fibres[c.writer].multiplied;
        const bool is_ordered = c.writer == now.thread || is_before(their.published, c.writer);
        if ((is_ordered ? their.published : their.published_before) > c.write_time) continue;
        record(unpublished, now.thread, __builtin_return_address(0),
               "%s[%lld]: thread %d wrote it, and called no publish_lines after that and before the barrier", of.name,
               (long long)i / element, c.writer);
        stop();
    }
}

void line_kept(const array &of, int64_t at, int bytes, int element, uint32_t since)
{
    shared_read(of, at, bytes, element);
    for (int64_t i = at; i < at + bytes; ++i) {
        const cell &c = now.cells[of.offset + i];
        if (c.write_time < since) continue;
        record(being_multiplied, now.thread, __builtin_return_address(0),
               "%s[%lld]: thread %d wrote it while a product still took it; multiply_wait comes before the barrier",
               of.name, (long long)i / element, c.writer);
        stop();
    }
}

void bad_product(const char *what, const char *comes_first, site at)
{
    record(being_multiplied, now.thread, __builtin_return_address(0),
           "its %s were changed while the product of %s:%d was made; %s comes first", what, name_of(at.file), at.line,
           comes_first);
    stop();
}

} // namespace emulator
} // namespace xpu

#endif
