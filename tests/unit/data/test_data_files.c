/* IDX, CIFAR, npy and CSV, good and bad, and what is kept in the cache folder. */
#include "data_files.h"

#include "os/os.h"

#include <sys/wait.h>
#include <zlib.h>

static void write_gzip(const char *path, const void *data, unsigned bytes) {
    gzFile file = gzopen(at_root(path), "wb");
    CHECK(file && gzwrite(file, data, bytes) == (int)bytes && gzclose(file) == Z_OK);
}

/* ---- idx ---- */

/* n images of 2x3, pixel k of image i is 6 i + k; or labels i % 3 */
static size_t make_idx(unsigned char *data, int rank, int n) {
    unsigned char header[16] = {
        0, 0, 8, (unsigned char)rank, 0, 0, 0, (unsigned char)n, 0, 0, 0, 2, 0, 0, 0, 3};
    size_t header_bytes = 4 + 4 * (size_t)rank, bytes = (size_t)(rank == 1 ? n : 6 * n);
    memcpy(data, header, header_bytes);
    for (size_t i = 0; i < bytes; i++)
        data[header_bytes + i] = (unsigned char)(rank == 1 ? i % 3 : i);
    return header_bytes + bytes;
}

static void write_idx(const char *folder, bool is_gzip) {
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    for (int i = 0; i < 4; i++) {
        unsigned char data[256];
        char path[PATH_MAX];
        size_t bytes = make_idx(data, i % 2 ? 1 : 3, i < 2 ? 10 : 5);
        snprintf(path, sizeof path, "%s/%s%s", folder, names[i], is_gzip ? ".gz" : "");
        if (is_gzip)
            write_gzip(path, data, (unsigned)bytes);
        else
            write_file(path, data, bytes);
    }
}

static void check_idx_content(const char *specification) {
    qn_data_source source;
    uint8_t x[6];
    int32_t y;
    CHECK_OK(open_at(specification, NULL, &source));
    CHECK(source.n_samples[0] == 10 && source.n_samples[1] == 5 && source.dtype == QN_U8);
    CHECK(source.preparation.n_classes == 3 && source.preparation.n_statistics == 1);
    /* 0..59: mean 29.5, variance (60^2 - 1) / 12 */
    CHECK(fabs(source.preparation.mean[0] - 29.5 / 255) < 1e-7);
    CHECK(fabs(source.preparation.std_dev[0] - sqrt(3599.0 / 12) / 255) < 1e-7);
    CHECK_OK(source.read(source.self, QN_TRAIN, 7, x, &y));
    CHECK(x[0] == 42 && x[5] == 47 && y == 1);
    qn_data_close(&source);
}

static void check_idx(void) {
    unsigned char data[256];
    make_folder("@/idx");
    make_folder("@/gz");
    write_idx("@/idx", false);
    write_idx("@/gz", true);
    check_open_survives("idx:@/idx");
    check_open_survives("idx:@/gz"); /* unpacking on the way */
    check_idx_content("idx:@/idx");
    check_idx_content("idx:@/gz");
    size_t bytes = make_idx(data, 3, 10);
    write_file("@/idx/train-images-idx3-ubyte", data, bytes - 1);
    CHECK_OPEN_FAILS("idx:@/idx", QN_ERROR_FORMAT, "train-images-idx3-ubyte: truncated");
    write_file("@/idx/train-images-idx3-ubyte", data, 10);
    CHECK_OPEN_FAILS("idx:@/idx", QN_ERROR_FORMAT, "too short");
    data[3] = 1;
    write_file("@/idx/train-images-idx3-ubyte", data, bytes);
    CHECK_OPEN_FAILS("idx:@/idx", QN_ERROR_FORMAT, "magic number 0x00000801");
    bytes = make_idx(data, 3, 0);
    write_file("@/idx/train-images-idx3-ubyte", data, bytes);
    CHECK_OPEN_FAILS("idx:@/idx", QN_ERROR_FORMAT, "extent 0");
    bytes = make_idx(data, 3, 9);
    write_file("@/idx/train-images-idx3-ubyte", data, bytes);
    CHECK_OPEN_FAILS("idx:@/idx", QN_ERROR_FORMAT, "10 labels for 9 images");
    CHECK(remove(at_root("@/idx/train-images-idx3-ubyte")) == 0);
    CHECK_OPEN_FAILS("idx:@/idx", QN_ERROR_IO, "train-images-idx3-ubyte");
    CHECK_OPEN_FAILS("idx", QN_ERROR_ARGUMENT, "idx:DIR");
}

static qn_status count_entry(void *context, const char *name, bool is_folder) {
    (void)name;
    (void)is_folder;
    ++*(int *)context;
    return QN_OK;
}

static int n_cached(void) {
    int n = 0;
    CHECK_OK(qn_folder_list(NULL, at_root("@/cache/quern"), count_entry, &n));
    return n;
}

/* Broken gzip files, and that what is whole is unpacked once for each state of the source. */
static void check_gzip(void) {
    unsigned char data[256], packed[512];
    size_t bytes = make_idx(data, 3, 10);
    int before = n_cached();
    check_idx_content("idx:@/gz");
    CHECK(n_cached() == before);
    FILE *file = fopen(at_root("@/gz/train-images-idx3-ubyte.gz"), "rb");
    size_t n = file ? fread(packed, 1, sizeof packed, file) : 0;
    CHECK(file && n > 40 && fclose(file) == 0);
    write_file("@/gz/train-images-idx3-ubyte.gz", packed, n - 12);
    CHECK_OPEN_FAILS("idx:@/gz", QN_ERROR_FORMAT, "cut off");
    packed[n - 6] ^= 1; /* the CRC */
    write_file("@/gz/train-images-idx3-ubyte.gz", packed, n);
    CHECK_OPEN_FAILS("idx:@/gz", QN_ERROR_FORMAT, "train-images-idx3-ubyte.gz: broken gzip");
    packed[n - 6] ^= 1;
    packed[0] = 0;
    write_file("@/gz/train-images-idx3-ubyte.gz", packed, n);
    CHECK_OPEN_FAILS("idx:@/gz", QN_ERROR_FORMAT, "incorrect header check");
    CHECK(n_cached() == before);
    packed[0] = 0x1f; /* zeros after the end are padding, other bytes are not */
    memset(packed + n, 0, 20);
    write_file("@/gz/train-images-idx3-ubyte.gz", packed, n + 20);
    check_idx_content("idx:@/gz");
    CHECK(n_cached() == before + 1);
    packed[n + 5] = 7;
    write_file("@/gz/train-images-idx3-ubyte.gz", packed, n + 20);
    CHECK_OPEN_FAILS("idx:@/gz", QN_ERROR_FORMAT, "broken gzip");
    gzFile halves = gzopen(at_root("@/gz/train-images-idx3-ubyte.gz"), "wb");
    CHECK(gzwrite(halves, data, 20) == 20 && gzclose(halves) == Z_OK);
    halves = gzopen(at_root("@/gz/train-images-idx3-ubyte.gz"), "ab");
    CHECK(gzwrite(halves, data + 20, (unsigned)bytes - 20) > 0 && gzclose(halves) == Z_OK);
    check_idx_content("idx:@/gz");
}

/* ---- cifar ---- */

/* n records; plane c of record i is 10 i + c throughout. */
static void write_cifar(const char *path, int label_bytes, int n, size_t cut) {
    static unsigned char data[8 * 3074];
    unsigned char *at = data;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < label_bytes; k++)
            *at++ = (unsigned char)(k + 1 == label_bytes ? i : 99);
        for (int c = 0; c < 3; c++, at += 1024)
            memset(at, 10 * i + c, 1024);
    }
    write_file(path, data, (size_t)(at - data) - cut);
}

static void check_cifar(void) {
    qn_data_source source;
    uint8_t x[3072];
    int32_t y;
    char path[] = "@/cifar/cifar-10-batches-bin/data_batch_1.bin";
    make_folder("@/cifar/cifar-10-batches-bin");
    for (int i = 1; i <= 5; i++) {
        path[sizeof path - 6] = (char)('0' + i);
        write_cifar(path, 1, 2, 0);
    }
    CHECK_OPEN_FAILS("cifar10:@/cifar", QN_ERROR_IO, "test_batch.bin");
    write_cifar("@/cifar/cifar-10-batches-bin/test_batch.bin", 1, 4, 0);
    CHECK_OK(open_at("cifar10:@/cifar", NULL, &source));
    CHECK(source.n_samples[0] == 10 && source.n_samples[1] == 4);
    CHECK(source.preparation.n_statistics == 3 && source.preparation.n_classes == 10);
    for (int c = 0; c < 3; c++)
        CHECK(fabs(source.preparation.mean[c] - (5.0 + c) / 255) < 1e-7 &&
              fabs(source.preparation.std_dev[c] - 5.0 / 255) < 1e-7);
    CHECK_OK(source.read(source.self, QN_TRAIN, 9, x, &y));
    CHECK(y == 1 && x[0] == 10 && x[1] == 11 && x[2] == 12 && x[3071] == 12);
    CHECK_OK(source.read(source.self, QN_TEST, 3, x, &y));
    CHECK(y == 3 && x[0] == 30);
    qn_data_close(&source);
    write_text("@/cifar/cifar-10-batches-bin/batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
    CHECK_OK(open_at("cifar10:@/cifar/cifar-10-batches-bin", NULL, &source));
    CHECK(strcmp(source.preparation.class_names[9], "j") == 0);
    qn_data_close(&source);
    check_open_survives("cifar10:@/cifar");
    write_cifar(path, 1, 2, 1);
    CHECK_OPEN_FAILS("cifar10:@/cifar", QN_ERROR_FORMAT, "data_batch_5.bin: truncated");
    static const unsigned char bad[3073] = {10};
    write_file(path, bad, sizeof bad);
    CHECK_OPEN_FAILS("cifar10:@/cifar", QN_ERROR_FORMAT, "label 10");
    write_cifar("@/cifar/train.bin", 2, 5, 0);
    write_cifar("@/cifar/test.bin", 2, 1, 0);
    CHECK_OK(open_at("cifar100:@/cifar", NULL, &source));
    CHECK_OK(source.read(source.self, QN_TRAIN, 4, x, &y));
    CHECK(y == 4 && x[1] == 41 && source.preparation.n_classes == 100);
    qn_data_close(&source);
}

/* ---- npy ---- */

static void write_npy(const char *path, int version, const char *dictionary, const void *data,
                      size_t bytes) {
    unsigned char file[1024] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0};
    size_t length = strlen(dictionary), begin = version == 1 ? 10 : 12;
    file[8] = (unsigned char)length;
    memcpy(file + begin, dictionary, length);
    memcpy(file + begin + length, data, bytes);
    write_file(path, file, begin + length + bytes);
}

#define NPY(type, shape) "{'descr': '" type "', 'fortran_order': False, 'shape': " shape ", }   \n"

static void check_npy_good(void) {
    float pixels[24], x[6];
    uint8_t bytes[24], b[6];
    int32_t y;
    qn_data_source source;
    for (int i = 0; i < 24; i++)
        bytes[i] = (uint8_t)(pixels[i] = (float)i);
    write_npy("@/x.npy", 1, NPY("<f4", "(4, 1, 2, 3)"), pixels, sizeof pixels);
    write_npy("@/y.npy", 3, NPY("<i8", "(4,)"), (const int64_t[]){0, 5, 1, 2}, 32);
    CHECK_OK(open_at("npy:@/x.npy,@/y.npy", NULL, &source));
    CHECK(source.n_samples[0] == 4 && source.n_samples[1] == 0 && source.dtype == QN_F32);
    CHECK(source.preparation.n_classes == 6 && source.preparation.n_statistics == 0);
    CHECK_OK(source.read(source.self, QN_TRAIN, 1, x, &y));
    CHECK(x[0] == 6 && x[5] == 11 && y == 5);
    qn_data_close(&source);
    write_npy("@/c.npy", 2, NPY("|u1", "(4, 3, 1, 2)"), bytes, sizeof bytes);
    write_npy("@/f.npy", 1, NPY("<f4", "(4, 1)"), (const float[]){.5f, 1, 2, 3}, 16);
    qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .holdout = 0.5};
    CHECK_OK(open_at("npy:@/c.npy,@/f.npy,nchw", &options, &source));
    CHECK(source.n_samples[0] == 2 && source.n_samples[1] == 2 && source.n_targets == 1);
    CHECK(source.sample.dims[2] == 3 && source.preparation.n_statistics == 3);
    float target;
    int64_t sum = 0;
    for (int i = 0; i < 4; i++) {
        CHECK_OK(source.read(source.self, (qn_split)(i % 2), i / 2, b, &target));
        CHECK(b[1] == b[0] + 2 && b[2] == b[0] + 4 && b[3] == b[0] + 1);
        sum += b[0];
    }
    CHECK(sum == 0 + 6 + 12 + 18);
    qn_data_close(&source);
    check_open_survives("npy:@/c.npy,@/y.npy,nchw");
    write_npy("@/s.npy", 1, NPY("|i1", "(4, 1)"), (const int8_t[]){0, 1, 1, 0}, 4);
    write_npy("@/r.npy", 1, NPY("u1", "(4, 6)"), bytes, sizeof bytes);
    CHECK_OK(open_at("npy:@/r.npy,@/s.npy", NULL, &source));
    CHECK(source.sample.rank == 1 && source.preparation.n_statistics == 6);
    qn_data_close(&source);
}

/* Opens data (2 samples of 6 numbers, 1 to 12, whatever their type and order) and checks them. */
static void check_npy_numbers(const char *dictionary, const void *data, size_t bytes) {
    float x[6];
    int32_t y;
    qn_data_source source;
    write_npy("@/n.npy", 1, dictionary, data, bytes);
    write_npy("@/b.npy", 1, NPY("|b1", "(2,)"), (const uint8_t[]){0, 1}, 2);
    CHECK_OK(open_at("npy:@/n.npy,@/b.npy", NULL, &source));
    CHECK(source.dtype == QN_F32 && source.preparation.n_classes == 2);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(source.read(source.self, QN_TRAIN, i, x, &y));
        for (int k = 0; k < 6; k++)
            CHECK(x[k] == (float)(6 * i + k + 1));
        CHECK(y == i);
    }
    qn_data_close(&source);
}

static void check_npy_types(void) {
    double f8[12], ordered[12];
    uint16_t u2[12];
    int64_t i8[12];
    float f4[12];
    for (int i = 0; i < 12; i++)
        f8[i] = u2[i] = (uint16_t)(i8[i] = i + 1);
    for (int i = 0; i < 12; i++) { /* (2, 3, 2) in Fortran's order */
        const int n = i % 2 * 6 + i / 2 % 3 * 2 + i / 6;
        ordered[i] = n + 1;
        f4[i] = (float)(n + 1);
    }
    check_npy_numbers(NPY("<f8", "(2, 3, 2)"), f8, sizeof f8);
    check_npy_numbers(NPY("<u2", "(2, 6)"), u2, sizeof u2);
    check_npy_numbers(NPY("<i8", "(2, 2, 3)"), i8, sizeof i8);
    check_npy_numbers("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3, 2)}", ordered,
                      sizeof ordered);
    check_npy_numbers("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 2)}", f4, sizeof f4);
}

/* Series by the names of their axes. */
static void check_npy_axes(void) {
    float f4[12], x[6];
    int32_t y;
    qn_data_source source;
    for (int i = 0; i < 12; i++)
        f4[i] = (float)i;
    write_npy("@/t.npy", 1, NPY("<f4", "(2, 3, 2)"), f4, sizeof f4);
    CHECK_OK(open_at("npy:@/t.npy,@/b.npy,ntc", NULL, &source));
    CHECK(source.sample.dims[0] == 3 && source.sample.dims[1] == 1 && source.sample.dims[2] == 2);
    CHECK_OK(source.read(source.self, QN_TRAIN, 1, x, &y));
    CHECK(x[0] == 6 && x[1] == 7 && x[5] == 11);
    qn_data_close(&source);
    CHECK_OK(open_at("npy:@/t.npy,@/b.npy,nct", NULL, &source));
    CHECK(source.sample.dims[0] == 2 && source.sample.dims[1] == 1 && source.sample.dims[2] == 3);
    CHECK_OK(source.read(source.self, QN_TRAIN, 1, x, &y));
    CHECK(x[0] == 6 && x[1] == 8 && x[2] == 10 && x[3] == 7);
    qn_data_close(&source);
    qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .is_unlabelled = true};
    CHECK_OK(open_at("npy:@/t.npy,nct", &options, &source));
    CHECK(source.n_samples[QN_TRAIN] == 2 && source.sample.dims[0] == 2);
    qn_data_close(&source);
}

/* Labels that are texts: the names of classes, in the order of characters. */
static void check_npy_texts(void) {
    const float rows[] = {0, 1, 2, 3};
    const uint32_t wide[] = {'b', 0, 0x1f33e, 0, 'a', 'z', 'b', 0};
    const uint32_t beyond[] = {'b', 'b', 'b', 0x110000};
    qn_data_source source;
    write_npy("@/rows.npy", 1, NPY("<f4", "(4, 1)"), rows, sizeof rows);
    write_npy("@/u.npy", 1, NPY("<U2", "(4,)"), wide, sizeof wide);
    write_npy("@/s.npy", 1, NPY("|S3", "(4, 1)"), "b\0\0\xc3\xa9\0abcb\0", 12);
    CHECK_OK(open_at("npy:@/rows.npy,@/u.npy", NULL, &source));
    CHECK(source.preparation.n_classes == 3 && source.n_targets == 0);
    CHECK(strcmp(source.preparation.class_names[0], "az") == 0);
    CHECK(strcmp(source.preparation.class_names[2], "\xf0\x9f\x8c\xbe") == 0);
    const int32_t numbers[] = {1, 2, 0, 1};
    for (int i = 0; i < 4; i++) {
        float x;
        int32_t y;
        CHECK_OK(source.read(source.self, QN_TRAIN, i, &x, &y));
        CHECK(y == numbers[i] && x == rows[i]);
    }
    qn_data_close(&source);
    CHECK_OK(open_at("npy:@/rows.npy,@/s.npy", NULL, &source));
    CHECK(strcmp(source.preparation.class_names[2], "\xc3\xa9") == 0);
    qn_data_close(&source);
    check_open_survives("npy:@/rows.npy,@/u.npy");
    write_npy("@/bad.npy", 1, NPY("<U1", "(4,)"), beyond, sizeof beyond);
    CHECK_OPEN_FAILS("npy:@/rows.npy,@/bad.npy", QN_ERROR_FORMAT, "row 3: characters");
    CHECK_OPEN_FAILS("npy:@/u.npy,@/u.npy", QN_ERROR_FORMAT, "texts (U2); samples are numbers");
}

static void check_npy_bad(void) {
    const float numbers[24] = {0};
    CHECK_OPEN_FAILS("npy:@/x.npy", QN_ERROR_ARGUMENT, "npy:X.npy,Y.npy");
    CHECK_OPEN_FAILS("npy:@/x.npy,@/y.npy,nwhc", QN_ERROR_ARGUMENT, "[,AXES]");
    CHECK_OPEN_FAILS("npy:@/none.npy,@/y.npy", QN_ERROR_IO, "none.npy");
    float nan[24] = {0};
    nan[13] = NAN;
    write_npy("@/nan.npy", 1, NPY("<f4", "(4, 1, 2, 3)"), nan, sizeof nan);
    CHECK_OPEN_FAILS("npy:@/nan.npy,@/y.npy", QN_ERROR_FORMAT,
                     "nan.npy: row 2, number 1 of it: nan");
    write_npy("@/inf.npy", 1, NPY("<f4", "(4, 1)"), (const float[]){0, 1, 2, -INFINITY}, 16);
    CHECK_OPEN_FAILS("npy:@/x.npy,@/inf.npy", QN_ERROR_FORMAT,
                     "inf.npy: row 3, number 0 of it: -inf");
    write_npy("@/y3.npy", 1, NPY("<i4", "(3,)"), numbers, 12);
    CHECK_OPEN_FAILS("npy:@/x.npy,@/y3.npy", QN_ERROR_FORMAT, "3 labels for 4 samples");
    write_npy("@/neg.npy", 1, NPY("<i2", "(4,)"), (const int16_t[]){0, 1, -2, 0}, 8);
    CHECK_OPEN_FAILS("npy:@/x.npy,@/neg.npy", QN_ERROR_FORMAT, "label -2 in row 2");
    CHECK_OPEN_FAILS("npy:@/y.npy,@/y.npy", QN_ERROR_FORMAT, "y.npy: 1 dimensions");
    CHECK_OPEN_FAILS("npy:@/x.npy,@/y.npy,ntc", QN_ERROR_FORMAT,
                     "x.npy: 4 dimensions; samples are (N, T, C)");
    write_npy("@/bad.npy", 1, NPY("<f4", "(4, 1, 2, 4)"), numbers, sizeof numbers);
    CHECK_OPEN_FAILS("npy:@/bad.npy,@/y.npy", QN_ERROR_FORMAT, "bad.npy: truncated");
    write_npy("@/huge.npy", 1, NPY("<f8", "(4, 1)"), (const double[]){1, 2, 1e39, 4}, 32);
    CHECK_OPEN_FAILS("npy:@/huge.npy,@/y.npy", QN_ERROR_FORMAT,
                     "/huge.npy: row 2, number 0 of it: inf");
    write_npy("@/bad.npy", 1, NPY("|O", "(4,)"), numbers, sizeof numbers);
    CHECK_OPEN_FAILS("npy:@/x.npy,@/bad.npy", QN_ERROR_UNSUPPORTED, "'|O', objects of Python");
    write_npy("@/bad.npy", 1, NPY("<U1024", "(4,)"), numbers, sizeof numbers);
    CHECK_OPEN_FAILS("npy:@/x.npy,@/bad.npy", QN_ERROR_UNSUPPORTED, "texts of 1024 characters");
    write_npy("@/bad.npy", 1, "{'descr': '<i8', 'fortran_order': True, 'shape': (4, 2)}", numbers,
              64);
    CHECK_OPEN_FAILS("npy:@/x.npy,@/bad.npy", QN_ERROR_FORMAT, "2 labels a sample");
    write_npy("@/bad.npy", 1, NPY(">f4", "(3, 1)"), numbers, sizeof numbers);
    CHECK_OPEN_FAILS("npy:@/bad.npy,@/y.npy", QN_ERROR_UNSUPPORTED, "'>f4'");
    write_npy("@/bad.npy", 4, NPY("<f4", "(3, 1)"), numbers, sizeof numbers);
    CHECK_OPEN_FAILS("npy:@/bad.npy,@/y.npy", QN_ERROR_UNSUPPORTED, "version 4");
    write_npy("@/bad.npy", 1, "{'descr': '<f4', 'shape': (4, 6)}", numbers, sizeof numbers);
    CHECK_OPEN_FAILS("npy:@/bad.npy,@/y.npy", QN_ERROR_FORMAT, "fortran_order");
    write_npy("@/bad.npy", 1, NPY("<f4", "(99999999999999, 99999999999999)"), numbers, 4);
    CHECK_OPEN_FAILS("npy:@/bad.npy,@/y.npy", QN_ERROR_FORMAT, "extent");
    write_text("@/bad.npy", "this is no array at all");
    CHECK_OPEN_FAILS("npy:@/bad.npy,@/y.npy", QN_ERROR_FORMAT, "bad.npy: not a .npy file");
}

/* ---- csv ---- */

/* The class of each row in a row of digits; opens, checks and closes. */
static void check_csv(const char *text, const char *specification, int n_columns, int n_classes,
                      const char *classes, const char *names) {
    qn_data_source source;
    char found[32] = "", found_names[64] = "";
    float x[8];
    int32_t y;
    write_text("@/t.csv", text);
    CHECK_OK(open_at(specification, NULL, &source));
    CHECK(source.sample.rank == 1 && source.sample.dims[0] == n_columns);
    CHECK(source.preparation.n_classes == n_classes && source.n_targets == 0);
    for (int64_t i = 0; i < source.n_samples[0] && i < 20; i++) {
        CHECK_OK(source.read(source.self, QN_TRAIN, i, x, &y));
        found[i] = (char)('0' + y);
    }
    for (int i = 0; i < n_classes && source.preparation.class_names; i++) {
        strcat(found_names, source.preparation.class_names[i]);
        strcat(found_names, " ");
    }
    CHECK(strcmp(found, classes) == 0);
    CHECK(strcmp(found_names, names) == 0);
    qn_data_close(&source);
}

static void check_csv_good(void) {
    qn_data_source source;
    float x[2], y;
    check_csv("1,2,0\n3,4,2\n5,6,1\n", "csv:@/t.csv", 2, 3, "021", "");
    check_csv("a,b,c\r\n1,2,cat\r\n3,4,ant\r\n5,6,cat\r\n\r\n", "csv:@/t.csv", 2, 2, "101",
              "ant cat ");
    check_csv("a,kind,\"c,\"\"d\"\n1, 10 ,5\n2,-3,5\n3,10,\" 7\"", "csv:@/t.csv,label=kind", 2, 2,
              "101", "-3 10 ");
    check_csv("\xef\xbb\xbf"
              "1,\"x\ny\"\n\n2,z\n",
              "csv:@/t.csv", 1, 2, "01", "x\ny z ");
    check_csv("1,1\r2,0\r3,1.0\r", "csv:@/t.csv", 1, 2, "101", "");
    write_text("@/t.csv", "1,2,0.5\n3,2,1\n");
    CHECK_OK(open_at("csv:@/t.csv", NULL, &source));
    CHECK(source.n_targets == 1 && source.preparation.n_classes == 0);
    CHECK(source.preparation.mean[0] == 2 && source.preparation.std_dev[0] == 1);
    CHECK(source.preparation.mean[1] == 2 && source.preparation.std_dev[1] == 1); /* constant */
    CHECK_OK(source.read(source.self, QN_TRAIN, 0, x, &y));
    CHECK(x[0] == 1 && x[1] == 2 && y == 0.5f);
    qn_data_close(&source);
    int before = n_cached();
    CHECK_OK(open_at("csv:@/t.csv", NULL, &source)); /* parsed before */
    qn_data_close(&source);
    CHECK(n_cached() == before);
    write_text("@/alloc.csv", "a,b,c\n1,2,cat\n3,4,ant\n5,6,cat\n");
    check_open_survives("csv:@/alloc.csv");
}

/* Columns of texts, where they are asked for: which they are, their texts and numbers. */
static void check_csv_texts(void) {
    qn_data_source source;
    const qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .reads_texts = true};
    float x[2];
    int32_t y;
    write_text("@/t.csv", "size,colour,kind\n1,red,cat\n2,,dog\n3,red,cat\n");
    CHECK_OK(open_at("csv:@/t.csv", &options, &source));
    CHECK(source.columns && source.columns[0].n_texts == 0 && source.columns[1].n_texts == 2);
    CHECK(strcmp(source.columns[1].name, "colour") == 0);
    CHECK(strcmp(source.columns[1].texts[0], "red") == 0 && !*source.columns[1].texts[1]);
    CHECK_OK(source.read(source.self, QN_TRAIN, 1, x, &y));
    CHECK(x[0] == 2 && x[1] == 1 && y == 1);
    qn_data_close(&source);
    CHECK_OK(open_at("csv:@/t.csv,label=size", &options, &source));
    CHECK(source.columns[0].n_texts == 2 && source.columns[1].n_texts == 2);
    qn_data_close(&source);
    /* Nothing but texts: the first line is names where nothing of it comes again. */
    write_text("@/t.csv", "shape,kind\nround,cat\nflat,dog\nround,cat\n");
    CHECK_OK(open_at("csv:@/t.csv", &options, &source));
    CHECK(source.n_samples[QN_TRAIN] == 3 && source.columns[0].n_texts == 2);
    qn_data_close(&source);
    write_text("@/t.csv", "round,cat\nflat,dog\nround,cat\n");
    CHECK_OK(open_at("csv:@/t.csv", &options, &source));
    CHECK(source.n_samples[QN_TRAIN] == 3 && !*source.columns[0].name);
    qn_data_close(&source);
    /* One slip does not make texts of a column of numbers. */
    write_text("@/t.csv", "1,a\nx,b\n3,a\n");
    CHECK_FAILS(open_at("csv:@/t.csv", &options, &source), QN_ERROR_FORMAT, "'x' is not a number");
    write_text("@/alloc.csv", "a,b,c\nx,2,cat\ny,4,ant\nx,6,cat\n");
    check_open_survives("csv:@/alloc.csv");
}

static void check_csv_bad(void) {
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"a,b,c\n1,2,0\n1,zwei,0\n1,3,0\n", "t.csv: line 3, column 2 (b): 'zwei' is not a number"},
        {"a,b,c\n1,2,\n1,2,\n", "no row has a target"},
        {"1,2,0\n1,2\n", "line 2 has 2 fields"},
        {"1,\"2\n", "line 1: a quote is not closed"},
        {"a,b\n", "no rows"},
        {"", "no rows"},
        {"\n\n\n", "no rows"},
        {"1\n4\n", "separated by commas"},
        {"1,1e39,0\n", "column 2"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text("@/t.csv", bad[i].text);
        CHECK_OPEN_FAILS("csv:@/t.csv", QN_ERROR_FORMAT, bad[i].message);
    }
    write_file("@/t.csv", "1,\0,2\n", 6);
    CHECK_OPEN_FAILS("csv:@/t.csv", QN_ERROR_FORMAT, "zero byte");
    write_text("@/t.csv", "a,b\n1,2\n");
    CHECK_OPEN_FAILS("csv:@/t.csv,label=d", QN_ERROR_ARGUMENT, "no column is named 'd'");
    CHECK_OPEN_FAILS("csv:@/none.csv", QN_ERROR_IO, "none.csv");
}

/* Processes that derive the same file at the same time all succeed, and leave one file. */
static void check_race(void) {
    enum { N_PROCESSES = 6 };
    qn_data_source source;
    pid_t children[N_PROCESSES];
    int before = n_cached();
    char text[60000] = "";
    for (size_t i = 0; i < sizeof text - 1; i++)
        text[i] = "1,2,0\n3,4,1\n"[i % 12];
    write_text("@/race.csv", text);
    for (int i = 0; i < N_PROCESSES; i++)
        if ((children[i] = fork()) == 0)
            _exit(open_at("csv:@/race.csv", NULL, &source) == QN_OK && source.n_samples[0] == 10000
                      ? 0
                      : 1);
    for (int i = 0; i < N_PROCESSES; i++) {
        int status = -1;
        CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
    CHECK(n_cached() == before + 1);
}

/* The set itself, where its package is installed: what is published of it. */
static void check_fashion_mnist(void) {
    qn_data_source source;
    uint8_t x[784];
    int32_t y;
    if (!qn_path_is_folder("/usr/share/datasets/fashion-mnist")) {
        CHECK_OPEN_FAILS("fashion-mnist", QN_ERROR_IO, "apt-get install dataset-fashion-mnist");
        return;
    }
    CHECK_OK(open_at("fashion-mnist", NULL, &source));
    CHECK(source.n_samples[0] == 60000 && source.n_samples[1] == 10000);
    CHECK(fabsf(source.preparation.mean[0] - 0.2860f) < 5e-5f);
    CHECK(fabsf(source.preparation.std_dev[0] - 0.3530f) < 5e-5f);
    CHECK_OK(source.read(source.self, QN_TRAIN, 0, x, &y));
    CHECK(strcmp(source.preparation.class_names[y], "Ankle boot") == 0);
    qn_data_close(&source);
}

int main(void) {
    files_begin();
    check_idx();
    check_gzip();
    check_cifar();
    check_npy_good();
    check_npy_types();
    check_npy_axes();
    check_npy_texts();
    check_npy_bad();
    check_csv_good();
    check_csv_texts();
    check_csv_bad();
    check_race();
    check_fashion_mnist();
    CHECK_OPEN_FAILS("mnist", QN_ERROR_ARGUMENT, "fashion-mnist, idx:DIR, cifar10:DIR");
    CHECK_OPEN_FAILS("synthetic:3", QN_ERROR_ARGUMENT, "it is written synthetic");
    CHECK_OPEN_FAILS("images:@/nothing", QN_ERROR_IO, "nothing");
    files_end();
    return checks_finish();
}
