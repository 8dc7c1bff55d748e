/* Products in tasks: some rows of A, which are packed into the second cache, times panels of B.
 * Part of engine.h, behind what becomes of a tile's sums (`sizes`, finish_rows, raise_largest). */
#ifndef QN_KERNELS_INTEGER_TASKS_H
#define QN_KERNELS_INTEGER_TASKS_H

typedef struct block {
    const word *a;
    int64_t a_step, words, first_row, rows;
    bool adds, is_last;
} block;

static void multiply_panel(const product *g, const block *d, const word *panel, const total *start,
                           int64_t first, sizes *largest) {
    total tile[TILE_ROWS * COLUMNS] __attribute__((aligned(64)));
    const int64_t width = least(COLUMNS, g->n - first);
    int64_t m;
    for (int64_t i = 0; i < d->rows; i += m) {
        const int64_t left = d->rows - i;
        const int size = left >= TILE_ROWS ? 2 : left >= 4 ? 1 : 0;
        m = size == 2 ? TILE_ROWS : size == 1 ? 4 : 1;
        tiles[g->a_columns][width > VL][size](d->words, d->a + i * (g->a_columns ? 1 : d->a_step),
                                              d->a_step, panel, start, tile);
        finish_rows(g, d->first_row + i, m, first, width, tile, d->adds, d->is_last, largest);
    }
}

/* Packed panels of all of K start with all that is too much, those of a task with their part. */
static void multiply_block(const product *g, const block *d, int64_t panel, int64_t k0, int64_t k1,
                           const place *places, word *space, sizes *largest) {
    static const total zeros[COLUMNS];
    total start[COLUMNS];
    const int64_t first = panel * COLUMNS;
    if (g->panels) {
        const word *b = g->panels + (panel * words_of(g->k) + k0 / NUMBERS) * COLUMNS;
        multiply_panel(g, d, b, k0 == 0 ? g->start + first : zeros, first, largest);
        return;
    }
    pack_windows(g->pixels, first, least(COLUMNS, g->n - first), places, k1 - k0, space);
    begin_sums(d->words, space, start);
    multiply_panel(g, d, space, start, first, largest);
}

/* Where the block of K that begins at k0 ends: with a unit, it is of whole ones or of one. */
static int64_t block_end(const product *g, int64_t k0) {
    const int64_t end = least(g->k, k0 + g->depth);
    if (g->unit == 0)
        return end;
    return g->unit > g->depth ? least(end, (k0 / g->unit + 1) * g->unit)
                              : least(g->k, k0 + g->depth / g->unit * g->unit);
}

static void product_task(void *context, int64_t begin, int64_t end, int thread) {
    const product *g = context;
    const int64_t n_panels = ceil_div(g->n, COLUMNS);
    const int64_t n_columns = ceil_div(n_panels, g->panel_block);
    word *a = (word *)(void *)(g->scratch + (size_t)thread * g->scratch_bytes);
    word *space = a + g->row_block * row_words(least(g->k, g->depth));
    place *places = (place *)(void *)(space + words_of(PIXELS) * COLUMNS);
    sizes largest[TILE_VECTORS] = {{0}};
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task / n_columns * g->row_block;
        const int64_t panel = task % n_columns * g->panel_block;
        block d = {.a = a, .first_row = first, .rows = least(g->row_block, g->m - first)};
        for (int64_t k0 = 0, k1; k0 < most(g->k, 1); k0 = most(k1, 1)) {
            k1 = block_end(g, k0);
            d.words = words_of(k1 - k0);
            d.a_step = pack_a(g, first, d.rows, k0, k1, a);
            d.adds = g->add || k0 > 0;
            d.is_last = k1 == g->k;
            walk at = g->panels ? (walk){0} : walk_from(g->pixels, k0);
            for (int64_t k = k0; !g->panels && k < k1; k++)
                places[k - k0] = walk_on(&at);
            for (int64_t j = panel; j < least(n_panels, panel + g->panel_block); j++)
                multiply_block(g, &d, j, k0, k1, places, space, largest);
        }
    }
    for (int j = 0; j < TILE_VECTORS; j++)
        raise_largest(&g->y, largest[j]);
}

static void pack_task(void *context, int64_t begin, int64_t end, int thread) {
    const product *g = context;
    (void)thread;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t first = panel * COLUMNS;
        word *to = g->panels + first * words_of(g->k);
        pack_panel(g, first, least(COLUMNS, g->n - first), 0, g->k, to);
        begin_sums(words_of(g->k), to, g->start + first);
    }
}

/* Blocks, by the sizes and the threads alone. */
static void choose_blocks(product *g, int n_threads, bool packs_all) {
    const int64_t n_panels = ceil_div(g->n, COLUMNS);
    g->depth = packs_all ? DEPTH : PIXELS;
    const int64_t row_bytes = 4 * row_words(least(g->k, g->depth));
    g->row_block = least(ROWS, BLOCK_BYTES / row_bytes / TILE_ROWS * TILE_ROWS);
    g->row_block = most(TILE_ROWS, least(g->row_block, ceil_div(g->m, TILE_ROWS) * TILE_ROWS));
    const int64_t n_rows = ceil_div(g->m, g->row_block);
    const int64_t wanted = n_threads > 1 ? ceil_div(4 * n_threads, n_rows) : 1;
    g->panel_block = most(1, n_panels / most(1, least(wanted, n_panels)));
    g->scratch_bytes =
        (size_t)(g->row_block * row_bytes +
                 (packs_all ? 0 : words_of(PIXELS) * COLUMNS * 4 + PIXELS * 16) + 64);
    g->scratch_bytes = (g->scratch_bytes + 63) / 64 * 64;
}

/* Of rows of at most k numbers: blocks of shorter rows have more of them, but no more bytes. */
static size_t scratch_limit(int64_t k) {
    const int64_t row_bytes = 4 * row_words(least(k, DEPTH));
    return (size_t)((most(least(BLOCK_BYTES, ROWS * row_bytes), TILE_ROWS * row_bytes) + 128) / 64 *
                    64);
}

static size_t panel_bytes(int64_t n, int64_t k) {
    return (size_t)(ceil_div(n, COLUMNS) * COLUMNS * (words_of(k) + 1)) * sizeof(word);
}

static size_t product_bytes(int64_t m, int64_t n, int64_t k, int n_threads, bool packs_all) {
    product g = {.m = m, .n = n, .k = k};
    choose_blocks(&g, n_threads, packs_all);
    return (packs_all ? panel_bytes(n, k) : 0) + 64 + (size_t)n_threads * g.scratch_bytes;
}

static void run_product(qn_team *team, product *g, bool packs_all, void *workspace) {
    const int64_t n_panels = ceil_div(g->n, COLUMNS);
    choose_blocks(g, qn_team_size(team), packs_all);
    g->scratch = workspace;
    if (packs_all) {
        g->panels = workspace;
        g->start = (total *)(void *)(g->panels + n_panels * COLUMNS * words_of(g->k));
        g->scratch += panel_bytes(g->n, g->k);
        qn_team_run(team, n_panels, pack_task, g);
    }
    qn_team_run(team, ceil_div(g->m, g->row_block) * ceil_div(n_panels, g->panel_block),
                product_task, g);
}

#endif
