/* Waiting without sleep: a hint to the processor between two looks, and giving way to whoever may
 * be waited for and needs this processor. */
#ifndef QN_OS_PROCESS_PAUSE_H
#define QN_OS_PROCESS_PAUSE_H

static inline void qn_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void qn_yield(void);

#endif
