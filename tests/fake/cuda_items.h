/* CUDA's built-in variables and functions for kernels that a host's compiler compiles as C, and how
 * the items of a block take turns: one runs to its next barrier, then the next one does. For
 * tests/fake/cuda.c. */
#ifndef QN_TESTS_FAKE_CUDA_ITEMS_H
#define QN_TESTS_FAKE_CUDA_ITEMS_H

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <tgmath.h>
#include <ucontext.h>

#define __global__ static
#define __device__
#define __shared__ static
#define __launch_bounds__(n)
#define __align__(n) __attribute__((aligned(n)))

typedef struct dim {
    unsigned x, y, z;
} dim;

typedef struct uint2 {
    unsigned x, y;
} uint2;

static dim threadIdx, blockIdx, blockDim, gridDim;

static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((uint64_t)a * b >> 32);
}

static inline int min(int a, int b) {
    return a < b ? a : b;
}

static inline int max(int a, int b) {
    return a > b ? a : b;
}

/* ---- turns ---- */

enum { MOST_ITEMS = 64, STACK_BYTES = 128 * 1024 };

typedef struct item {
    ucontext_t context;
    dim thread;
    int is_done;
    char *stack; /* (STACK_BYTES) */
} item;

static item items[MOST_ITEMS];
static ucontext_t between;
static int n_items, current;
static void (*work_of_item)(void);

/* Every item of a block comes to the same barriers. */
static void __syncthreads(void) {
    if (n_items > 0)
        swapcontext(&items[current].context, &between);
}

static void run_item(void) {
    work_of_item();
    items[current].is_done = 1;
}

static void begin_item(int i) {
    item *it = &items[i];
    it->is_done = 0;
    it->thread = (dim){(unsigned)i % blockDim.x, (unsigned)i / blockDim.x, 0};
    if (!it->stack)
        it->stack = malloc(STACK_BYTES);
    if (!it->stack || getcontext(&it->context) != 0)
        abort();
    it->context.uc_stack.ss_sp = it->stack;
    it->context.uc_stack.ss_size = STACK_BYTES;
    it->context.uc_link = &between;
    makecontext(&it->context, run_item, 0);
}

/* Runs a block whose items wait for each other. Some end early only if all do. */
static void run_block_in_turns(void (*work)(void)) {
    int n_left = n_items = (int)(blockDim.x * blockDim.y);
    if (n_items > MOST_ITEMS)
        abort();
    work_of_item = work;
    for (int i = 0; i < n_items; i++)
        begin_item(i);
    while (n_left > 0) {
        const int n_before = n_left;
        for (current = 0; current < n_items; current++) {
            if (items[current].is_done)
                continue;
            threadIdx = items[current].thread;
            if (swapcontext(&between, &items[current].context) != 0)
                abort();
            n_left -= items[current].is_done;
        }
        if (n_left > 0 && n_left < n_before) /* some are at a barrier that others never reach */
            abort();
    }
    n_items = 0;
}

/* Runs a block without barriers. */
static void run_block(void (*work)(void)) {
    for (unsigned y = 0; y < blockDim.y; y++) {
        for (unsigned x = 0; x < blockDim.x; x++) {
            threadIdx = (dim){x, y, 0};
            work();
        }
    }
}

#endif
