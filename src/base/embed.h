/* A file embedded in the program: the assembler includes it from its place in the build. */
#ifndef QN_BASE_EMBED_H
#define QN_BASE_EMBED_H

/* Declares and defines name, the first byte of a file, and name_end, which lies behind its last and
 * is 0, so that a text ends. */
#define QN_EMBED(name, path)                                                                       \
    __asm__(".pushsection .rodata\n"                                                               \
            ".globl " #name "\n.hidden " #name "\n"                                                \
            ".globl " #name "_end\n.hidden " #name "_end\n" #name ":\n"                            \
            ".incbin \"" path "\"\n" #name "_end:\n.byte 0\n"                                      \
            ".popsection\n");                                                                      \
    extern const unsigned char name[], name##_end[]

#endif
