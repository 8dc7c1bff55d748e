/* Measuring the memory of sequences; see trial.h. */
#include "plan/budget/trial.h"

#include "base/status.h"

#include <string.h>

static int32_t most(int32_t a, int32_t b) {
    return a > b ? a : b;
}

/* The most outputs and reads that any turn has. */
static void find_widths(const qn_budget_model *model, size_t *n_outputs, size_t *n_reads) {
    *n_outputs = *n_reads = 0;
    for (int32_t t = 0; t < model->n_turns; t++) {
        *n_outputs += (size_t)model->turns[t].n_outputs;
        *n_reads += (size_t)model->turns[t].n_reads;
    }
}

qn_status qn_budget_trial_init(qn_arena *arena, const qn_budget_model *model, int32_t most_items,
                               qn_budget_trial *trial) {
    const size_t n_items = (size_t)most_items + 1;
    size_t n_outputs, n_reads;
    find_widths(model, &n_outputs, &n_reads);
    /* Every turn may run as often as there are items to one of them, and no more on average. */
    const size_t times = (n_items + (size_t)model->n_turns) / ((size_t)model->n_turns + 1) + 1;
    const size_t n_copies = n_outputs * times + 1, n_all_reads = n_reads * times + 1;
    *trial = (qn_budget_trial){
        .model = model,
        .most_items = most_items,
        .most_copies = (int32_t)n_copies,
        .most_reads = (int32_t)n_all_reads,
        .items = qn_arena_allocate(arena, n_items, sizeof *trial->items),
        .is_again = qn_arena_allocate(arena, n_items, sizeof *trial->is_again),
        .copies = qn_arena_allocate(arena, n_copies, sizeof *trial->copies),
        .groups = qn_arena_allocate(arena, n_copies, sizeof *trial->groups),
        .group_of = qn_arena_allocate(arena, n_copies, sizeof *trial->group_of),
        .first_copy = qn_arena_allocate(arena, n_items, sizeof *trial->first_copy),
        .first_read = qn_arena_allocate(arena, n_items, sizeof *trial->first_read),
        .read_copies = qn_arena_allocate(arena, n_all_reads, sizeof *trial->read_copies),
        .latest = qn_arena_allocate(arena, (size_t)model->n_values + 1, sizeof *trial->latest),
        .storages = qn_arena_allocate(arena, n_copies + n_items, sizeof *trial->storages),
        .live_bytes = qn_arena_allocate(arena, n_items + 1, sizeof *trial->live_bytes),
    };
    if (!trial->items || !trial->is_again || !trial->copies || !trial->groups || !trial->group_of ||
        !trial->first_copy || !trial->first_read || !trial->read_copies || !trial->latest ||
        !trial->storages || !trial->live_bytes)
        return QN_ERROR_MEMORY;
    return QN_OK;
}

bool qn_budget_trial_has_room(const qn_budget_trial *trial, const int32_t *items, int32_t n_items) {
    const qn_budget_turn *turns = trial->model->turns;
    int32_t n_copies = 0, n_reads = 0;
    for (int32_t i = 0; i < n_items && i < trial->most_items; i++) {
        n_copies += turns[items[i]].n_outputs;
        n_reads += turns[items[i]].n_reads;
    }
    return n_items <= trial->most_items && n_copies <= trial->most_copies &&
           n_reads <= trial->most_reads;
}

/* ---- which copy is read ---- */

static void add_copies(qn_budget_trial *trial, int32_t item) {
    const qn_budget_model *model = trial->model;
    const qn_budget_turn *turn = &model->turns[trial->items[item]];
    trial->first_copy[item] = trial->n_copies;
    for (int32_t k = 0; k < turn->n_outputs; k++) {
        const int32_t v = turn->first_output + k;
        trial->copies[trial->n_copies] = (qn_budget_copy){
            .value = v,
            .first = item,
            .last = item,
            .first_read = trial->n_items,
            .before = trial->latest[v],
            .outer = -1,
            .next_member = -1,
            .may_be_strided = model->values[v].may_be_strided,
        };
        trial->latest[v] = trial->n_copies++;
    }
}

static void find_copies(qn_budget_trial *trial) {
    const qn_budget_model *model = trial->model;
    int32_t n_reads = 0;
    trial->n_copies = 0;
    trial->again_ns = 0;
    for (int32_t v = 0; v < model->n_values; v++)
        trial->latest[v] = -1;
    for (int32_t i = 0; i < trial->n_items; i++) {
        const qn_budget_turn *turn = &model->turns[trial->items[i]];
        trial->is_again[i] = turn->n_outputs > 0 && trial->latest[turn->first_output] >= 0;
        trial->again_ns += trial->is_again[i] ? turn->ns : 0;
        trial->first_read[i] = n_reads;
        for (int32_t r = 0; r < turn->n_reads; r++) {
            const qn_budget_read *read = &model->reads[turn->first_read + r];
            const int32_t c = trial->latest[read->value];
            trial->read_copies[n_reads++] = c;
            if (trial->copies[c].last == trial->copies[c].first)
                trial->copies[c].first_read = i;
            trial->copies[c].last = i;
            trial->copies[c].may_be_strided &= read->may_be_strided;
        }
        add_copies(trial, i);
    }
    trial->first_read[trial->n_items] = n_reads;
    for (int32_t v = 0; v < model->n_values; v++) {
        if (!model->values[v].is_result)
            continue;
        trial->copies[trial->latest[v]].last = trial->n_items;
        trial->copies[trial->latest[v]].may_be_strided = false;
    }
}

/* ---- what lies in what: slices before parts, as qn_plan_share has it ---- */

static void lay_within(qn_budget_trial *trial, int32_t inner, int32_t outer) {
    if (trial->copies[inner].may_be_strided && trial->copies[inner].outer < 0)
        trial->copies[inner].outer = outer;
}

static void find_outers(qn_budget_trial *trial) {
    const qn_budget_model *model = trial->model;
    for (int joins = 0; joins < 2; joins++) {
        for (int32_t i = 0; i < trial->n_items; i++) {
            const qn_budget_turn *turn = &model->turns[trial->items[i]];
            for (int32_t r = 0; r < turn->n_reads; r++) {
                const qn_budget_read *read = &model->reads[turn->first_read + r];
                const int32_t c = trial->read_copies[trial->first_read[i] + r];
                if (!joins && read->is_slice)
                    lay_within(trial, trial->first_copy[i], c);
                if (joins && read->is_joined)
                    lay_within(trial, c, trial->first_copy[i]);
            }
        }
    }
}

static void find_groups(qn_budget_trial *trial) {
    for (int32_t c = 0; c < trial->n_copies; c++) {
        int32_t owner = c;
        while (trial->copies[owner].outer >= 0)
            owner = trial->copies[owner].outer;
        trial->group_of[c] = owner;
        if (owner == c)
            trial->groups[c] = (qn_budget_group){trial->n_items, -1, -1, -1};
    }
    for (int32_t c = trial->n_copies - 1; c >= 0; c--) {
        qn_budget_copy *copy = &trial->copies[c];
        qn_budget_group *group = &trial->groups[trial->group_of[c]];
        group->first = copy->first < group->first ? copy->first : group->first;
        group->last = most(group->last, copy->last);
        copy->next_member = group->members;
        group->members = c;
    }
}

/* ---- storages ---- */

/* The storage of an input that output 0 takes over, or -1; as qn_plan_lifetimes has it. */
static int32_t find_in_place(const qn_budget_trial *trial, int32_t item) {
    const qn_budget_model *model = trial->model;
    const qn_budget_turn *turn = &model->turns[trial->items[item]];
    const qn_budget_read *reads = &model->reads[turn->first_read];
    const int32_t *copies = &trial->read_copies[trial->first_read[item]];
    for (int32_t r = 0; r < turn->n_reads; r++) {
        if (!reads[r].may_take_place || trial->group_of[copies[r]] != copies[r] ||
            model->values[reads[r].value].bytes != model->values[turn->first_output].bytes)
            continue;
        const int32_t storage = trial->groups[copies[r]].storage;
        int32_t n_uses = 0;
        if (trial->storages[storage].last != item)
            continue;
        for (int32_t other = 0; other < turn->n_reads; other++)
            n_uses += trial->groups[trial->group_of[copies[other]]].storage == storage;
        if (n_uses == 1)
            return storage;
    }
    return -1;
}

static void place_output(qn_budget_trial *trial, int32_t item, int32_t output) {
    const int32_t c = trial->first_copy[item] + output, owner = trial->group_of[c];
    qn_budget_group *group = &trial->groups[owner];
    if (group->storage >= 0)
        return;
    if (output == 0 && owner == c)
        group->storage = find_in_place(trial, item);
    if (group->storage < 0) {
        group->storage = trial->n_storages++;
        trial->storages[group->storage] = (qn_budget_storage){
            item, group->last, trial->model->values[trial->copies[owner].value].room};
    }
    qn_budget_storage *storage = &trial->storages[group->storage];
    storage->last = most(storage->last, group->last);
}

static void find_storages(qn_budget_trial *trial) {
    trial->n_storages = 0;
    for (int32_t i = 0; i < trial->n_items; i++) {
        const qn_budget_turn *turn = &trial->model->turns[trial->items[i]];
        for (int32_t k = 0; k < turn->n_outputs; k++)
            place_output(trial, i, k);
        if (turn->workspace > 0)
            trial->storages[trial->n_storages++] = (qn_budget_storage){i, i, turn->workspace};
    }
}

static void sum_up(qn_budget_trial *trial) {
    int64_t *live = trial->live_bytes;
    memset(live, 0, ((size_t)trial->n_items + 2) * sizeof *live);
    for (int32_t s = 0; s < trial->n_storages; s++) {
        const qn_budget_storage *storage = &trial->storages[s];
        live[storage->first] += (int64_t)storage->room;
        if (storage->last < trial->n_items)
            live[storage->last + 1] -= (int64_t)storage->room;
    }
    int64_t peak = 0, sum = 0;
    for (int32_t i = 0; i < trial->n_items; i++) {
        sum += live[i];
        live[i] = sum;
        peak = sum > peak ? sum : peak;
    }
    trial->peak_bytes = (size_t)peak;
}

static void measure(qn_budget_trial *trial) {
    find_copies(trial);
    if (trial->model->has_shared)
        find_outers(trial);
    find_groups(trial);
    find_storages(trial);
    sum_up(trial);
}

void qn_budget_trial_begin(qn_budget_trial *trial) {
    trial->n_items = trial->model->n_turns;
    for (int32_t i = 0; i < trial->n_items; i++)
        trial->items[i] = i;
    measure(trial);
}

void qn_budget_trial_set(qn_budget_trial *trial, const int32_t *items, int32_t n_items) {
    memmove(trial->items, items, (size_t)n_items * sizeof *items);
    trial->n_items = n_items;
    measure(trial);
}

double qn_budget_trial_excess(const qn_budget_trial *trial, size_t limit) {
    double excess = 0;
    for (int32_t i = 0; i < trial->n_items; i++) {
        const int64_t above = trial->live_bytes[i] - (int64_t)limit;
        excess += above > 0 ? (double)above : 0;
    }
    return excess;
}

void qn_budget_trial_boxes(const qn_budget_trial *trial, qn_box *boxes) {
    for (int32_t s = 0; s < trial->n_storages; s++) {
        const qn_budget_storage *storage = &trial->storages[s];
        boxes[s] = (qn_box){storage->first, storage->last + 1, storage->room, 0};
    }
}

qn_status qn_budget_trial_write(const qn_budget_trial *trial, qn_sequence *sequence) {
    for (int32_t i = 0; i < trial->n_items; i++)
        QN_TRY(qn_sequence_add(sequence, QN_ACTION_RUN, trial->model->turns[trial->items[i]].node));
    return QN_OK;
}
