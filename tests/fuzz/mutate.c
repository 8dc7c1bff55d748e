/* Runs a fuzz target on so many files made from its corpus by chance: bits, bytes, lengths and
 * stretches are changed, and what its format is made of, one to eight times a file, most often
 * few. File I is the same on every machine, so that what breaks the target can be made again by its
 * number. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */

#include "base/rng.h"
#include "fuzz/format.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_SEEDS = 1024, MOST_BYTES = 1 << 14, ROOM = 64 };

static struct seed {
    char name[256];
    uint8_t *bytes;
    size_t n;
} seeds[MOST_SEEDS];
static int n_seeds;

/* The file that is being made. */
static uint8_t made[MOST_BYTES + ROOM];
static size_t n_made;
static qn_rng rng;
static uint64_t n_drawn;

static size_t draw(size_t bound) {
    return bound ? (size_t)qn_rng_below(rng, n_drawn++, bound) : 0;
}

/* ---- changes ---- */

static void set_number(void) {
    static const uint64_t numbers[] = {0,        1,          0x7F,      0x80,
                                       0xFF,     0x7FFF,     0xFFFF,    0x7FFFFFFF,
                                       1u << 31, 0xFFFFFFFF, INT64_MAX, UINT64_MAX};
    const uint64_t number = numbers[draw(sizeof numbers / sizeof *numbers)];
    const size_t bytes = (size_t)1 << draw(4);
    if (n_made >= bytes)
        memcpy(made + draw(n_made - bytes + 1), &number, bytes);
}

static void erase(void) {
    const size_t at = draw(n_made), n = draw(draw(n_made - at + 1) + 1);
    memmove(made + at, made + at + n, n_made - at - n);
    n_made -= n;
}

/* Puts a stretch of any seed, often the same, somewhere. */
static void insert(const struct seed *from) {
    const size_t begin = draw(from->n), to = draw(n_made + 1);
    size_t n = draw(draw(from->n - begin + 1) + 1);
    if (n > MOST_BYTES - n_made)
        n = MOST_BYTES - n_made;
    memmove(made + to + n, made + to, n_made - to);
    memcpy(made + to, from->bytes + begin, n);
    n_made += n;
}

/* Mostly what keeps the file's length: few files whose lengths are wrong get far. */
static void change(const struct seed *own) {
    const size_t at = draw(n_made), kind = draw(12);
    if (kind < 8 && n_made == 0)
        return;
    if (kind < 3)
        made[at] ^= (uint8_t)(1u << draw(8));
    else if (kind < 6)
        made[at] = (uint8_t)draw(256);
    else if (kind < 8)
        made[at] = (uint8_t)(made[at] + (draw(2) ? 1 : -1));
    else if (kind < 10)
        set_number();
    else if (kind == 10)
        erase();
    else
        insert(draw(2) ? own : &seeds[draw((size_t)n_seeds)]);
}

static void run(uint64_t index) {
    rng = qn_rng_make(1, qn_hash_text("mutate"), index);
    n_drawn = 0;
    const struct seed *seed = &seeds[draw((size_t)n_seeds)];
    n_made = seed->n;
    memcpy(made, seed->bytes, n_made);
    chance c = {draw(UINT32_MAX)};
    for (size_t n = 1 + draw(1 + draw(8)); n > 0; n--) {
        if (draw(2))
            n_made = format_change(made, n_made, MOST_BYTES, &c);
        else
            change(seed);
    }
    /* A block of its own, so that reading beyond it is seen. */
    uint8_t *copy = malloc(n_made ? n_made : 1);
    if (!copy)
        abort();
    memcpy(copy, made, n_made);
    LLVMFuzzerTestOneInput(copy, n_made);
    free(copy);
}

/* ---- corpus ---- */

static int compare_seeds(const void *left, const void *right) {
    return strcmp(((const struct seed *)left)->name, ((const struct seed *)right)->name);
}

static int read_seed(const char *folder, const char *name) {
    char path[4096];
    struct seed *seed = &seeds[n_seeds];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(seed->name, sizeof seed->name, "%s", name);
    FILE *file = fopen(path, "rb");
    seed->bytes = malloc(MOST_BYTES);
    if (!file || !seed->bytes)
        return 0;
    seed->n = fread(seed->bytes, 1, MOST_BYTES, file);
    fclose(file);
    n_seeds++;
    return 1;
}

static int read_seeds(const char *folder) {
    DIR *entries = opendir(folder);
    for (struct dirent *e; entries && n_seeds < MOST_SEEDS && (e = readdir(entries));) {
        if (e->d_name[0] != '.' && !read_seed(folder, e->d_name))
            return 0;
    }
    if (entries)
        closedir(entries);
    qsort(seeds, (size_t)n_seeds, sizeof *seeds, compare_seeds);
    return n_seeds;
}

int mutate(const char *folder, uint64_t count, uint64_t first, const char *program) {
    uint64_t *at =
        mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || !read_seeds(folder))
        return 2;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        for (*at = first; *at < first + count; ++*at)
            run(*at);
        exit(0); /* with the sanitizer's look for leaks */
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        printf("file %llu broke it: %s %s 1 %llu\n", (unsigned long long)*at, program, folder,
               (unsigned long long)*at);
        return 1;
    }
    printf("%llu mutated files of %d seeds\n", (unsigned long long)count, n_seeds);
    return 0;
}
