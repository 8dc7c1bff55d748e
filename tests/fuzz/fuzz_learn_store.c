/* The store of `quern learn` with values that nobody wrote: bytes of the file, or cells of its
 * tables. A service opens it, learns from it and goes on, or says what is wrong; commands look at
 * it and go back. The store that is changed is one in the middle of a round. */
#include "fuzz/input.h"
#include "learn/service.h"
#include "quern/checkpoint.h"
#include "quern/trainer.h"

enum { SIDE = 6, N_CLASSES = 2, N_SAMPLES = 24, MOST_BYTES = 1 << 22, MOST_CHANGES = 6 };

static uint8_t whole[MOST_BYTES]; /* the file before it is changed */
static size_t n_whole;
static char folder[96], model[96], file_name[128], saved_name[128];

/* ---- the store before ---- */

static void must(qn_status status) {
    if (status != QN_OK)
        abort();
}

static void make_model(void) {
    const qn_preparation preparation = {.sample = {3, {SIDE, SIDE, 1}}, .n_classes = N_CLASSES};
    qn_trainer_options o;
    qn_metadata *pairs;
    qn_trainer *trainer;
    o = qn_trainer_options_for(qn_model_find("mlp"));
    o.input = preparation.sample;
    o.n_outputs = N_CLASSES;
    o.batch = 4;
    o.engine.n_threads = 1;
    must(qn_trainer_create(&o, &trainer));
    must(qn_metadata_create(NULL, &pairs));
    must(qn_metadata_set(pairs, "model", "mlp"));
    must(qn_metadata_set_preparation(pairs, &preparation));
    must(qn_checkpoint_save(qn_trainer_engine(trainer), pairs, model));
    qn_metadata_destroy(pairs);
    qn_trainer_destroy(trainer);
}

static qn_status sense(void *user, qn_moment *m, double *cool) {
    (void)user;
    for (int i = 0; i < QN_SENSES; i++)
        m->sense[i] = 60;
    m->second = 1000 * (int64_t)QN_DAY_SECONDS + 40000;
    m->sense[QN_SENSE_CELSIUS] = 20;
    *cool = 40;
    return QN_OK;
}

static qn_service_options options(void) {
    return (qn_service_options){.folder = folder,
                                .model = model,
                                .n_fresh = 8,
                                .n_threads = 1,
                                .n_kept = 32,
                                .batch = 4,
                                .memory_bytes = 64 << 20,
                                .when = "idle,charging",
                                .watts = 5,
                                .sense = sense};
}

static void put_samples(void) {
    qn_store store;
    int64_t places[2] = {0, 0};
    uint8_t x[SIDE * SIDE];
    must(qn_store_open(NULL, folder, true, 0, &store));
    for (int i = 0; i < 2 * N_SAMPLES; i++) {
        const int held_out = i % 3 == 0;
        memset(x, i % 2 ? 200 : 20 + i, sizeof x);
        const qn_stored_sample sample = {.place = places[held_out]++,
                                         .origin = QN_ORIGIN_USER,
                                         .is_held_out = held_out,
                                         .label = i % 2,
                                         .name = "a",
                                         .x = x,
                                         .bytes = sizeof x};
        must(qn_store_put_sample(&store, &sample));
    }
    must(qn_store_set(&store, "fresh", N_SAMPLES));
    qn_store_close(&store);
}

static void turn(qn_service *s, int n) {
    for (int i = 0; i < n; i++) {
        qn_learn_turn what;
        int64_t rest_ns;
        if (qn_service_turn(s, &what, &rest_ns) != QN_OK)
            return;
    }
}

static void read_whole(void) {
    FILE *file = fopen(file_name, "rb");
    if (!file)
        abort();
    n_whole = fread(whole, 1, sizeof whole, file);
    fclose(file);
    if (n_whole == sizeof whole)
        abort();
}

static void set_up(void) {
    const qn_service_options o = options();
    qn_service *s;
    snprintf(folder, sizeof folder, "%s/learned", input_folder());
    snprintf(model, sizeof model, "%s/model.safetensors", input_folder());
    snprintf(file_name, sizeof file_name, "%s/learn.db", folder);
    snprintf(saved_name, sizeof saved_name, "%s/model.safetensors", folder);
    make_model();
    must(qn_service_open(&o, &s));
    qn_service_close(s);
    put_samples();
    must(qn_service_open(&o, &s));
    turn(s, 8);
    if (qn_service_get_facts(s).step < 2)
        abort();
    qn_service_close(s);
    read_whole();
}

/* ---- changes ---- */

static int64_t number_of(const uint8_t *at) {
    static const int64_t usual[] = {0, 1, -1, 2, 31, 32, INT32_MAX, INT64_MAX, INT64_MIN, 1 << 20};
    int64_t value;
    memcpy(&value, at, sizeof value);
    return value & 16 ? usual[(uint64_t)value >> 8 & 7] : value >> (value & 15) * 4;
}

static const char *const cells[] = {
    "UPDATE setting SET value=? WHERE name='keep'",
    "UPDATE setting SET value=? WHERE name='batch'",
    "UPDATE setting SET value=? WHERE name='seed'",
    "UPDATE setting SET value=? WHERE name='fresh'",
    "UPDATE setting SET value=? WHERE name='taken'",
    "UPDATE setting SET value=? WHERE name='round_ms'",
    "UPDATE setting SET value=? WHERE name='must_learn'",
    "UPDATE setting SET value=? WHERE name='generation'",
    "UPDATE sample SET place=? WHERE id=5",
    "UPDATE sample SET label=? WHERE id=4",
    "UPDATE sample SET origin=? WHERE id=3",
    "UPDATE sample SET held_out=? WHERE id=2",
    "UPDATE sample SET version=? WHERE id=1",
    "UPDATE sample SET x=zeroblob(?) WHERE id=6",
    "UPDATE sample SET x='text', name=? WHERE id=7",
    "UPDATE state SET offered_old=?",
    "UPDATE state SET offered_user=?",
    "UPDATE state SET tried=?",
    "UPDATE state SET best_old=?",
    "UPDATE state SET version=?",
    "UPDATE state SET step=?",
    "UPDATE state SET steps=?",
    "UPDATE state SET round=zeroblob(? & 65535)",
    "UPDATE state SET round=NULL, one=?",
    "UPDATE version SET recent=?",
    "UPDATE version SET number=?",
    "UPDATE version SET weights=zeroblob(? & 65535)",
    "UPDATE day SET day=?",
    "UPDATE day SET joules=?",
    "UPDATE day SET seconds=?",
    "UPDATE memory SET seen=zeroblob(? & 255)",
    "INSERT OR REPLACE INTO memory VALUES(1, 0, zeroblob(16), CAST(? AS BLOB))",
};

enum { N_CELLS = sizeof cells / sizeof *cells };

static void change_cells(const uint8_t *data, size_t size) {
    qn_database *d;
    if (qn_database_open(NULL, file_name, 0, &d) != QN_OK)
        return;
    for (int i = 0; i < MOST_CHANGES && size >= 9; i++, data += 9, size -= 9) {
        const qn_cell value = qn_cell_count(number_of(data + 1));
        (void)qn_database_change(d, cells[data[0] % N_CELLS], 1, &value);
    }
    qn_database_close(d);
}

static void write_changed(const uint8_t *data, size_t size) {
    static uint8_t changed[MOST_BYTES];
    const bool has_bytes = size > 0 && data[0] % 4 == 0;
    memcpy(changed, whole, n_whole);
    for (size_t i = 1; has_bytes && i + 3 < size; i += 4)
        changed[(data[i] | (size_t)data[i + 1] << 8 | (size_t)data[i + 2] << 16) % n_whole] =
            data[i + 3];
    input_write("learned/learn.db", changed, n_whole);
    if (!has_bytes && size > 0)
        change_cells(data + 1, size - 1);
}

/* ---- use ---- */

static qn_status visit_version(void *user, const qn_stored_version *v) {
    *(double *)user += (double)v->recent.n_better + v->joules;
    return QN_OK;
}

static qn_status visit_sample(void *user, const qn_stored_sample *sample) {
    *(double *)user += (double)(strlen(sample->name) + sample->bytes);
    return QN_OK;
}

static void look(void) {
    qn_store store;
    double sum = 0;
    int64_t version;
    if (qn_store_open(NULL, folder, true, 0, &store) != QN_OK)
        return;
    (void)qn_store_each_version(&store, &sum, visit_version);
    (void)qn_store_each_sample(&store, &sum, visit_sample);
    (void)qn_store_forget(&store, 3, true, &version);
    (void)qn_store_undo(&store, &version);
    qn_store_close(&store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    qn_service_options o;
    qn_service *s = NULL;
    if (n_whole == 0)
        set_up();
    write_changed(data, size);
    o = options();
    o.allocator = &allocator;
    o.n_kept = o.batch = 0;
    if (qn_service_open(&o, &s) == QN_OK) {
        turn(s, 40);
        qn_service_close(s);
    }
    input_check_memory(&f);
    look();
    return 0;
}
