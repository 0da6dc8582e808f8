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

void line_verb(int64_t same, site at)
{
    multiplying &own = own_products();
    own.called = (own.called ^ (uint64_t)same ^ (uint64_t)at.line << 44) * 0x9e3779b97f4a7c15u;
    own.at = at;
    converge(same, at, false);
}

uint32_t begin_product(const array &of, int64_t start, int count, int k, site at)
{
    const void *address = __builtin_return_address(0);
    if (now.threads % 128) {
        record(partial_wave, now.thread, address, "%s is made by 128 threads together; the block has %d", at.verb,
               now.threads);
        stop();
    }
    if (k % 16 || k < 0 || k > 48) {
        record(misaligned, now.thread, address, "%s takes 16 numbers of a line from 0, 16, 32 or 48 on, given %d", at.verb,
               k);
        stop();
    }
    if (start % 1024) {
        record(misaligned, now.thread, address, "%s[%lld]: lines begin at a multiple of 1024 bytes", of.name,
               (long long)start / 2);
        stop();
    }
    line_verb((of.offset + start) << 12 | count << 8 | k, at);
    return ++ticks;
}

void line_read(const array &of, int64_t at, int bytes, int element, site product)
{
    for (int64_t i = at; i < at + bytes; ++i) {
        const cell &c = now.cells[of.offset + i];
        const multiplying &their = fibres[c.writer].multiplied;
        const bool is_ordered = c.writer == now.thread || is_before(their.published, c.writer);
        if ((is_ordered ? their.published : their.published_before) > c.write_time) continue;
        record(unpublished, now.thread, nullptr,
               "%s[%lld]: thread %d wrote it, and called no publish_lines after that and before the barrier; the product "
               "of %s:%d takes it", of.name, (long long)i / element, c.writer, name_of(product.file), product.line);
        stop();
    }
}

void line_kept(const array &of, int64_t at, int bytes, int element, uint32_t since, site product)
{
    for (int64_t i = at; i < at + bytes; ++i) {
        cell &c = now.cells[of.offset + i];
        note_reader(c); /* it may have been read until now */
        if (c.write_time < since) continue; /* nor may it be what a copy will bring */
        record(being_multiplied, now.thread, nullptr,
               "%s[%lld]: thread %d wrote it while the product of %s:%d still took it; multiply_wait comes before the "
               "barrier", of.name, (long long)i / element, c.writer, name_of(product.file), product.line);
        stop();
    }
}

void sums_used(const void *sums)
{
    const multiplying &own = own_products();
    for (int i = 0; i < own.sums; ++i) {
        const int64_t within = (const unsigned char *)sums - own.made[i].sums;
        if (i == own.shown || within < 0 || within >= own.made[i].bytes) continue;
        record(being_multiplied, now.thread, __builtin_return_address(0),
               "it uses sums that the product of %s:%d may still add to; multiply_end comes first",
               name_of(own.made[i].at.file), own.made[i].at.line);
        stop();
    }
}

void bad_rows(site at)
{
    record(being_multiplied, now.thread, nullptr,
           "the rows of the product of %s:%d changed before it was through; multiply_wait comes first", name_of(at.file),
           at.line);
    stop();
}

} // namespace emulator
} // namespace xpu

#endif
