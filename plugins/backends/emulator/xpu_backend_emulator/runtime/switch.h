/* Leaves one fibre for another. A fibre that has not run is a stack that `prepared` made.
 *
 * xpu_emulator_switch(from, to) keeps the registers that a call must preserve on the stack, notes where
 * in *from, and goes on where `to` was noted. It returns: fibres mostly wait at the same place, so the
 * processor, which expects its own caller there, is right. The floating-point modes are the same for all fibres.
 */
#ifndef XPU_EMULATOR_SWITCH_H
#define XPU_EMULATOR_SWITCH_H

#if defined(__x86_64__) || defined(__aarch64__)

extern "C" __attribute__((visibility("hidden"))) void xpu_emulator_switch(void **from, void *to);

#if defined(__x86_64__)
asm(R"(
.text
.p2align 4
.globl xpu_emulator_switch
.hidden xpu_emulator_switch
.type xpu_emulator_switch, @function
xpu_emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size xpu_emulator_switch, .-xpu_emulator_switch
)");

/* Six registers, the entry, and a return address that is never used. */
static void *prepared(unsigned char *top, void (*entry)())
{
    void **words = (void **)(top - 64);
    for (int i = 0; i < 8; ++i) words[i] = nullptr;
    words[6] = (void *)entry;
    return words;
}
#else
asm(R"(
.text
.p2align 4
.globl xpu_emulator_switch
.hidden xpu_emulator_switch
.type xpu_emulator_switch, %function
xpu_emulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size xpu_emulator_switch, .-xpu_emulator_switch
)");

static void *prepared(unsigned char *top, void (*entry)())
{
    void **words = (void **)(top - 160);
    for (int i = 0; i < 20; ++i) words[i] = nullptr;
    words[11] = (void *)entry; /* x30 */
    return words;
}
#endif

#else
#include <new>
#include <ucontext.h>

static void xpu_emulator_switch(void **from, void *to)
{
    ucontext_t here;
    *from = &here;
    swapcontext(&here, (ucontext_t *)to);
}

static void *prepared(unsigned char *top, void (*entry)())
{
    const unsigned long room = 32 << 10;
    ucontext_t *made = new (top - sizeof(ucontext_t) / 64 * 64 - 64) ucontext_t;
    getcontext(made);
    made->uc_stack.ss_sp = (unsigned char *)made - room;
    made->uc_stack.ss_size = room;
    made->uc_link = nullptr;
    makecontext(made, entry, 0);
    return made;
}
#endif

#endif
