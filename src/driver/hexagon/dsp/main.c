/* The program on the DSP: maps the memory that it shares with the host (descriptor 3), and does
 * what comes until the host has closed its end of the pipe. Without a C library. */
#include "works.h"

#include "ops/kept_shift.h"

enum { READ = 63, WRITE = 64, EXIT = 93, MAP = 222 };
enum { TO_READ_AND_WRITE = 3, SHARED = 1, MEMORY = 3 };

static prepared resident[QN_DSP_MOST_RESIDENT];

/* ---- the system ---- */

static int call(int number, int a, int b, int c, int d, int e, int f) {
    register int r0 __asm__("r0") = a;
    register int r1 __asm__("r1") = b;
    register int r2 __asm__("r2") = c;
    register int r3 __asm__("r3") = d;
    register int r4 __asm__("r4") = e;
    register int r5 __asm__("r5") = f;
    register int r6 __asm__("r6") = number;
    __asm__ volatile("trap0(#1)"
                     : "+r"(r0)
                     : "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r6)
                     : "memory");
    return r0;
}

__attribute__((noreturn)) static void leave(int status) {
    for (;;)
        (void)call(EXIT, status, 0, 0, 0, 0, 0);
}

/* ---- what the compiler calls ---- */

void *memcpy(void *to, const void *from, unsigned long n) {
    char *t = to;
    for (const char *f = from; n > 0; n--)
        *t++ = *f++;
    return to;
}

void *__hexagon_memcpy_likely_aligned_min32bytes_mult8bytes(void *to, const void *from,
                                                            unsigned long n) {
    long long *t = to;
    for (const long long *f = from; n > 0; n -= sizeof *t)
        *t++ = *f++;
    return to;
}

void *memset(void *to, int value, unsigned long n) {
    for (char *t = to; n > 0; n--)
        *t++ = (char)value;
    return to;
}

static unsigned divide(unsigned a, unsigned b, unsigned *rest) {
    unsigned result = 0;
    *rest = 0;
    for (int i = 31; i >= 0; i--) {
        *rest = *rest << 1 | (a >> i & 1);
        if (*rest >= b) {
            *rest -= b;
            result |= 1U << i;
        }
    }
    return result;
}

unsigned __hexagon_udivsi3(unsigned a, unsigned b) {
    unsigned rest;
    return divide(a, b, &rest);
}

unsigned __hexagon_umodsi3(unsigned a, unsigned b) {
    unsigned rest;
    (void)divide(a, b, &rest);
    return rest;
}

int __hexagon_divsi3(int a, int b) {
    unsigned rest;
    const unsigned q =
        divide(a < 0 ? -(unsigned)a : (unsigned)a, b < 0 ? -(unsigned)b : (unsigned)b, &rest);
    return (int)((a < 0) != (b < 0) ? -q : q);
}

int __hexagon_modsi3(int a, int b) {
    unsigned rest;
    (void)divide(a < 0 ? -(unsigned)a : (unsigned)a, b < 0 ? -(unsigned)b : (unsigned)b, &rest);
    return (int)(a < 0 ? -rest : rest);
}

/* ---- commands ---- */

static void prepare(prepared *p, const qn_dsp_work *work, char *base) {
    p->work = *work;
    p->base = base;
    if (work->kind <= QN_DSP_FILTER)
        p->places = qn_dsp_place(work);
}

/* Sums are all stored before the first of them is shifted. */
static void multiply(const prepared *p, int bits) {
    const int32_t *kept = (const int32_t *)place(p, p->work.in[2]);
    const int right = qn_shift_for(make_sums(p), bits);
    const int rule = p->work.adapts;
    int shift = qn_shift_in_range(kept[QN_KEPT_SHIFT]);
    if (shift != right && !qn_shift_may_stay(rule, kept, right))
        shift = right;
    shift_sums(p, shift);
    *(int32_t *)place(p, p->work.out[1]) = shift;
    qn_shift_keep(rule, p->work.period, kept, shift, right,
                  rule == QN_SHIFTS_EXACT || kept[QN_KEPT_STEPS] == 0,
                  (int32_t *)place(p, p->work.out[2]));
}

static void add_exponents(const prepared *p) {
    int64_t sum = 0;
    for (int i = 0; i < p->work.n_inputs; i++)
        sum += *(const int32_t *)place(p, p->work.in[i]);
    sum = sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum;
    *(int32_t *)place(p, p->work.out[0]) = (int32_t)sum;
}

static void run(const prepared *p, int bits) {
    switch ((qn_dsp_kind)p->work.kind) {
    case QN_DSP_FORWARD:
    case QN_DSP_DATA:
    case QN_DSP_FILTER:
        multiply(p, bits);
        break;
    case QN_DSP_RELU:
        relu(p);
        break;
    case QN_DSP_RELU_BACKWARD:
        relu_backward(p);
        break;
    case QN_DSP_MAX_POOL:
        max_pool(p);
        break;
    case QN_DSP_MAX_POOL_BACKWARD:
        max_pool_backward(p);
        break;
    case QN_DSP_EXPONENTS:
        add_exponents(p);
        break;
    }
}

/* Instruction packets so far: the emulator has them in a control register that processors do not
 * use and assemblers do not know (r0 = c20). */
static uint32_t packets(void) {
    register uint32_t r0 __asm__("r0");
    __asm__ volatile(".word 0x6a14c000" : "=r"(r0) : : "memory");
    return r0;
}

static void do_commands(qn_dsp_control *control) {
    for (uint32_t i = 0; i < control->n_commands; i++) {
        const qn_dsp_command *c = &control->commands[i];
        const uint32_t begin = packets();
        prepared *p = &resident[c->slot];
        if (c->prepares > 0) {
            prepare(p, &control->works[c->prepares - 1], (char *)control);
            control->prepare_packets += packets() - begin;
        }
        run(p, c->bits);
        control->packets[i] = packets() - begin;
        __asm__ volatile("" : : : "memory");
        *(volatile uint32_t *)&control->done = i + 1;
    }
}

/* The first word that comes says how much memory there is. */
__attribute__((noreturn, used)) static void begin(void) {
    uint32_t word;
    if (call(READ, 0, (int)&word, sizeof word, 0, 0, 0) != sizeof word)
        leave(1);
    qn_dsp_control *control = (void *)call(MAP, 0, (int)word, TO_READ_AND_WRITE, SHARED, MEMORY, 0);
    if ((uintptr_t)control % QN_DSP_VECTOR != 0 || control->version != QN_DSP_VERSION)
        leave(2);
    while (call(READ, 0, (int)&word, sizeof word, 0, 0, 0) == sizeof word) {
        do_commands(control);
        if (call(WRITE, 1, (int)&word, sizeof word, 0, 0, 0) != sizeof word)
            leave(3);
    }
    leave(0);
}

__asm__(".globl _start\n_start:\n r29 = and(r29, #-128)\n jump begin\n");
