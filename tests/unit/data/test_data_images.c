/* Pictures of every kind, whole, turned and broken, and folders of them. */
#include "data_files.h"
#include "image_files.h"

#include "data/facts.h"
#include "data/images/image.h"
#include "os/library.h"

/* Decodes to 2x2 of c channels and compares with a text of numbers, up to a tolerance. */
static void check_pixels(const char *path, int64_t c, const int *wanted, int tolerance) {
    uint8_t x[12];
    qn_shape size = QN_SHAPE(2, 2, c);
    CHECK_OK(qn_image_load(at_root(path), &size, false, x));
    for (int i = 0; i < 4 * c; i++) {
        CHECK(abs(x[i] - wanted[i]) <= tolerance);
        if (abs(x[i] - wanted[i]) > tolerance)
            printf("  %s: %d is %d, wanted %d\n", path, i, x[i], wanted[i]);
    }
}

static void check_png(void) {
    const int grey[] = {0, 100, 200, 255}, bits[] = {255, 0, 0, 255};
    const int colours[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const int repeated[] = {0, 0, 0, 100, 100, 100, 200, 200, 200, 255, 255, 255};
    write_png("@/a.png", 2, 2, 8, 0, false, (const unsigned char[]){0, 0, 100, 0, 200, 255}, 6);
    check_pixels("@/a.png", 1, grey, 0);
    check_pixels("@/a.png", 3, repeated, 0);
    write_png("@/a.png", 2, 2, 1, 0, false, (const unsigned char[]){0, 0x80, 0, 0x40}, 4);
    check_pixels("@/a.png", 1, bits, 0);
    /* 16 bits are rounded, not cut: 0x00ff is 1, 0x64a0 is 100.2 */
    write_png("@/a.png", 2, 2, 16, 0, false,
              (const unsigned char[]){0, 0, 0x20, 0x64, 0xa0, 0, 0xc8, 0x80, 0xff, 0xff}, 10);
    check_pixels("@/a.png", 1, grey, 0);
    write_png("@/a.png", 2, 2, 8, 2, false,
              (const unsigned char[]){0, 1, 2, 3, 4, 5, 6, 0, 7, 8, 9, 10, 11, 12}, 14);
    check_pixels("@/a.png", 3, colours, 0);
    /* grey and alpha: on white */
    write_png("@/a.png", 2, 2, 8, 4, false,
              (const unsigned char[]){0, 0, 255, 50, 0, 0, 0, 127, 255, 255}, 10);
    check_pixels("@/a.png", 1, (const int[]){0, 255, 128, 255}, 0);
    write_png(
        "@/a.png", 2, 2, 8, 6, false,
        (const unsigned char[]){0, 9, 8, 7, 255, 0, 0, 0, 0, 0, 0, 0, 0, 51, 255, 255, 255, 128},
        18);
    check_pixels("@/a.png", 3, (const int[]){9, 8, 7, 255, 255, 255, 204, 204, 204, 255, 255, 255},
                 0);
    /* a palette of (i, i, 255 - i) with alpha i */
    write_png("@/a.png", 2, 2, 8, 3, false, (const unsigned char[]){0, 255, 0, 0, 255, 0}, 6);
    check_pixels("@/a.png", 3,
                 (const int[]){255, 255, 0, 255, 255, 255, 255, 255, 0, 255, 255, 255}, 0);
    /* 2x2 interlaced: passes hold (0,0); (0,1) in the sixth; the row 1 in the seventh */
    write_png("@/a.png", 2, 2, 8, 0, true, (const unsigned char[]){0, 0, 0, 100, 0, 200, 255}, 7);
    check_pixels("@/a.png", 1, grey, 0);
}

static void check_jpeg(void) {
    const JSAMPLE grey[] = {77}, red[] = {200, 30, 40}, light[] = {200, 100, 50, 204};
    const int greys[] = {77, 77, 77, 77};
    const int reds[] = {200, 30, 40, 200, 30, 40, 200, 30, 40, 200, 30, 40};
    /* libjpeg marks CMYK as Adobe does: what is left of the light, 204 / 255 of it by black */
    const int inks[] = {160, 80, 40, 160, 80, 40, 160, 80, 40, 160, 80, 40};
    write_jpeg("@/a.jpg", 17, 9, 1, grey, false);
    check_pixels("@/a.jpg", 1, greys, 1);
    write_jpeg("@/a.jpg", 17, 33, 3, red, false);
    check_pixels("@/a.jpg", 3, reds, 3);
    write_jpeg("@/a.jpg", 40, 40, 3, red, true);
    check_pixels("@/a.jpg", 3, reds, 3);
    write_jpeg("@/a.jpg", 8, 8, 4, light, false);
    check_pixels("@/a.jpg", 3, inks, 2);
}

/* ---- the right way up ---- */

enum { TURN_H = 16, TURN_W = 32 };

/* A picture whose four quarters differ, and where EXIF's eight numbers say that its pixel (y, x) is
 * stored: the table of the standard, by rows and columns. */
static void store_turned(int orientation, JSAMPLE *stored, int *stored_h, int *stored_w) {
    static const JSAMPLE quarters[4][3] = {
        {200, 30, 40}, {20, 180, 60}, {30, 60, 220}, {240, 240, 240}};
    const int h = TURN_H, w = TURN_W;
    *stored_h = orientation < 5 ? h : w;
    *stored_w = orientation < 5 ? w : h;
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++) {
            const int places[9][2] = {{0},
                                      {y, x},
                                      {y, w - 1 - x},
                                      {h - 1 - y, w - 1 - x},
                                      {h - 1 - y, x},
                                      {x, y},
                                      {w - 1 - x, y},
                                      {w - 1 - x, h - 1 - y},
                                      {x, h - 1 - y}};
            const int *at = places[orientation];
            memcpy(stored + (at[0] * *stored_w + at[1]) * 3,
                   quarters[(y >= h / 2) * 2 + (x >= w / 2)], 3);
        }
    }
}

static const int quarters[] = {200, 30, 40, 20, 180, 60, 30, 60, 220, 240, 240, 240};

static void check_orientations(void) {
    static JSAMPLE stored[TURN_H * TURN_W * 3];
    int h, w;
    for (int orientation = 1; orientation <= 8; orientation++) {
        store_turned(orientation, stored, &h, &w);
        write_jpeg_pixels("@/a.jpg", w, h, 3, stored, false, orientation);
        check_pixels("@/a.jpg", 3, quarters, 12);
    }
    /* a number that there is not: as stored */
    store_turned(1, stored, &h, &w);
    write_jpeg_pixels("@/a.jpg", w, h, 3, stored, false, 9);
    check_pixels("@/a.jpg", 3, quarters, 12);
}

/* The four quarters in files that other programs wrote (Pillow, heif-enc), or byte by byte. Where
 * one of them is transparent, white comes out. */
static void check_written_elsewhere(void) {
    static const struct {
        const char *name, *library;
        int tolerance;
    } files[] = {{"turned.jpg", NULL, 12},
                 {"turned.png", NULL, 0},
                 {"quarters.webp", "libwebp.so.7", 0},
                 {"turned.webp", "libwebp.so.7", 0},
                 {"quarters.heic", "libheif.so.1", 12},
                 {"quarters.avif", "libheif.so.1", 12},
                 {"quarters.bmp", NULL, 0},
                 {"palette.bmp", NULL, 0},
                 {"plain4.bmp", NULL, 0},
                 {"plain32.bmp", NULL, 0},
                 {"masks16.bmp", NULL, 4},
                 {"runs8.bmp", NULL, 0},
                 {"runs4.bmp", NULL, 0},
                 {"quarters.gif", "libgif.so.7", 0},
                 {"interlaced.gif", "libgif.so.7", 0},
                 {"animated.gif", "libgif.so.7", 0},
                 {"transparent.gif", "libgif.so.7", 15},
                 {"lzw.tif", "libtiff.so.6", 0},
                 {"deflate.tif", "libtiff.so.6", 0},
                 {"turned.tif", "libtiff.so.6", 0},
                 {"cmyk.tif", "libtiff.so.6", 2},
                 {"alpha.tif", "libtiff.so.6", 15}};
    const char *top = getenv("QUERN_SOURCE");
    char path[PATH_MAX];
    CHECK(top != NULL);
    for (size_t i = 0; top && i < sizeof files / sizeof files[0]; i++) {
        qn_library *library = NULL;
        if (files[i].library && qn_library_open(files[i].library, &library) != QN_OK) {
            printf("left out, there is no %s: %s\n", files[i].library, files[i].name);
            continue;
        }
        qn_library_close(library);
        snprintf(path, sizeof path, "%s/tests/fuzz/corpus/image/%s", top, files[i].name);
        check_pixels(path, 3, quarters, files[i].tolerance);
    }
}

/* A file of the corpus, at the path of a test's file. */
static void copy_corpus(const char *name, const char *path) {
    static unsigned char data[16384];
    char from[PATH_MAX];
    snprintf(from, sizeof from, "%s/tests/fuzz/corpus/image/%s", getenv("QUERN_SOURCE"), name);
    FILE *file = fopen(from, "rb");
    const size_t bytes = file ? fread(data, 1, sizeof data, file) : 0;
    CHECK(file && fclose(file) == 0 && bytes > 0);
    write_file(path, data, bytes);
}

/* Two colours in one bit, with the header of OS/2: rows 10101, 01010 and 11111, the last first. */
static void check_old_bmp(void) {
    const qn_shape size = QN_SHAPE(3, 5, 1);
    const uint8_t wanted[] = {255, 255, 255, 255, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255};
    uint8_t x[15];
    copy_corpus("core1.bmp", "@/a.bmp");
    CHECK_OK(qn_image_load(at_root("@/a.bmp"), &size, false, x));
    CHECK(memcmp(x, wanted, sizeof x) == 0);
}

/* Decoded at an eighth of its size, the mean of a fine pattern comes out, not single pixels. */
static void check_large(void) {
    static JSAMPLE pixels[64 * 64];
    const int greys[] = {128, 128, 128, 128};
    for (int i = 0; i < 64 * 64; i++)
        pixels[i] = (i / 64 + i % 64) % 2 ? 255 : 0;
    write_jpeg_pixels("@/a.jpg", 64, 64, 1, pixels, false, 0);
    check_pixels("@/a.jpg", 1, greys, 2);
}

/* Every part of the file cut off: an error each time, that names the file. */
static void check_cuts(const char *path, size_t step) {
    static unsigned char data[16384];
    uint8_t x[12];
    qn_shape size = QN_SHAPE(2, 2, 3);
    FILE *file = fopen(at_root(path), "rb");
    size_t bytes = file ? fread(data, 1, sizeof data, file) : 0;
    CHECK(file && fclose(file) == 0 && bytes > 60);
    for (size_t n = 0; n + 2 < bytes; n += step) {
        write_file("@/cut", data, n);
        CHECK_FAILS(qn_image_load(at_root("@/cut"), &size, false, x), QN_ERROR_FORMAT, "/cut: ");
    }
    write_file("@/cut", data, bytes);
    CHECK_OK(qn_image_load(at_root("@/cut"), &size, false, x));
}

static void check_broken(void) {
    const JSAMPLE red[] = {200, 30, 40};
    uint8_t x[12];
    qn_shape size = QN_SHAPE(2, 2, 3);
    write_grey_png("@/a.png", 30, 30, 7);
    write_jpeg("@/a.jpg", 30, 30, 3, red, false);
    write_jpeg("@/p.jpg", 30, 30, 3, red, true);
    check_cuts("@/a.png", 1);
    check_cuts("@/a.jpg", 7);
    check_cuts("@/p.jpg", 7);
    copy_corpus("quarters.bmp", "@/a.bmp");
    check_cuts("@/a.bmp", 7);
    copy_corpus("palette.bmp", "@/a.bmp");
    check_cuts("@/a.bmp", 7);
    copy_corpus("runs8.bmp", "@/a.bmp");
    check_cuts("@/a.bmp", 7);
    write_text("@/cut", "GIF, say");
    CHECK_FAILS(qn_image_load(at_root("@/cut"), &size, false, x), QN_ERROR_FORMAT, "neither");
    /* 65535 x 65535 pixels in a few bytes */
    write_png("@/a.png", 65535, 65535, 8, 0, true, (const unsigned char[]){0, 0}, 2);
    CHECK_FAILS(qn_image_load(at_root("@/a.png"), &size, false, x), QN_ERROR_FORMAT, "too many");
}

static void check_prepare(void) {
    const float mean = 0.5f, std_dev = 0.25f;
    float x[3];
    qn_preparation wanted = {
        .sample = QN_SHAPE(1, 1, 3), .n_statistics = 1, .mean = &mean, .std_dev = &std_dev};
    write_grey_png("@/a.png", 5, 3, 255);
    CHECK_OK(qn_image_prepare(NULL, at_root("@/a.png"), &wanted, x));
    CHECK(fabsf(x[0] - 2) < 1e-5f && x[0] == x[1] && x[1] == x[2]);
    wanted.sample = QN_SHAPE(3);
    CHECK_FAILS(qn_image_prepare(NULL, at_root("@/a.png"), &wanted, x), QN_ERROR_ARGUMENT, "rows");
    wanted.sample = QN_SHAPE(1, 1, 1);
    CHECK_FAILS(qn_image_prepare(NULL, at_root("@/b.png"), &wanted, x), QN_ERROR_IO, "b.png");
    for (int n = 0; n < 5; n++) {
        failing f = {.left = n};
        qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_status status = qn_image_prepare(&allocator, at_root("@/a.png"), &wanted, x);
        CHECK(f.held_bytes == 0 && (status == QN_ERROR_MEMORY || n > 2));
    }
}

/* ---- folders ---- */

static char last_notice[1024];
static int n_notices;

static void keep_notice(void *user, int level, const char *text) {
    (void)user;
    (void)level;
    snprintf(last_notice, sizeof last_notice, "%s", text);
    n_notices++;
}

/* n files in a folder, of one grey value each. */
static void write_class(const char *folder, int n, int value) {
    char path[PATH_MAX];
    make_folder(folder);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%d.png", folder, i);
        write_grey_png(path, 4 + i, 5, value); /* no two are the same */
    }
}

static void check_folder_held_out(void) {
    const JSAMPLE bright[] = {250};
    const qn_log log = {NULL, keep_notice, NULL};
    qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .log = &log,
                               .sample = QN_SHAPE(3, 3, 1), .seed = 3};
    qn_data_source source;
    uint8_t x[64];
    int32_t y;
    write_class("@/set/dark", 20, 10);
    write_class("@/set/light", 19, 250);
    write_jpeg("@/set/light/z.JPG", 9, 9, 1, bright, false);
    write_text("@/set/light/notes.txt", "x");
    write_text("@/set/readme", "x");
    CHECK_OK(open_at("images:@/set", &options, &source));
    CHECK(n_notices == 1 && strstr(last_notice, "left out 2: ") &&
          strstr(last_notice, "1 .txt (no picture: light/notes.txt)") &&
          strstr(last_notice, "readme"));
    /* few: a quarter is held out */
    CHECK(source.n_samples[0] + source.n_samples[1] == 40);
    CHECK(source.n_samples[1] >= 5 && source.n_samples[1] <= 15 && source.held_out);
    CHECK(source.preparation.n_classes == 2 && source.preparation.centre_crop);
    CHECK(strcmp(source.preparation.class_names[1], "light") == 0);
    int n_light = 0;
    for (int i = 0; i < source.n_samples[1]; i++) {
        CHECK_OK(source.read(source.self, QN_TEST, i, x, &y));
        CHECK(abs(x[4] - (y ? 250 : 10)) < 2);
        n_light += y;
    }
    CHECK(n_light > 0 && n_light < source.n_samples[1]);
    CHECK_OK(source.set_size(source.self, 4, 4, 3));
    CHECK_OK(source.set_size(source.self, 4, 4, 3));
    CHECK_OK(source.read(source.self, QN_TRAIN, source.n_samples[0] - 1, x, &y));
    CHECK(x[0] == 250 && x[47] == 250 && y == 1);
    CHECK_FAILS(source.set_size(source.self, 5, 4, 3), QN_ERROR_ARGUMENT, "another size");
    qn_data_close(&source);
    check_open_survives("images:@/set");
}

static void check_folder_split(void) {
    qn_data_source source;
    uint8_t x[32 * 32 * 3];
    int32_t y;
    write_class("@/two/train/a", 2, 1);
    write_class("@/two/train/b", 2, 2);
    write_class("@/two/test/b", 1, 3);
    CHECK_OK(open_at("images:@/two", NULL, &source));
    CHECK(source.n_samples[0] == 4 && source.n_samples[1] == 1);
    CHECK_OK(source.read(source.self, QN_TEST, 0, x, &y));
    CHECK(y == 1 && x[100] == 3);
    qn_data_close(&source);
    write_class("@/two/test/c", 1, 3);
    CHECK_OPEN_FAILS("images:@/two", QN_ERROR_FORMAT, "two/test/c");
    make_folder("@/empty/a");
    CHECK_OPEN_FAILS("images:@/empty", QN_ERROR_FORMAT, "holds no pictures that can be read");
    make_folder("@/none");
    CHECK_OPEN_FAILS("images:@/none", QN_ERROR_FORMAT, "no class folders");
}

/* Folders in all the ways that people keep pictures in. */
static void check_layouts(void) {
    qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .sample = QN_SHAPE(3, 3, 1)};
    qn_data_source source;
    int32_t y;
    /* val beside train, in any case: tested on; beside a test folder it validates */
    write_class("@/val/Train/a", 3, 1);
    write_class("@/val/Train/b", 3, 2);
    write_class("@/val/Valid/b", 2, 3);
    write_class("@/val/other", 1, 3);
    CHECK_OK(open_at("images:@/val", &options, &source));
    CHECK(source.n_samples[QN_TRAIN] == 6 && source.n_samples[QN_TEST] == 2 &&
          source.n_samples[QN_VALIDATION] == 0);
    CHECK_OK(source.read_class(source.self, QN_TEST, 0, &y));
    CHECK(y == 1 && source.facts->dropped.n == 1 && source.facts->n_notes == 1);
    qn_data_close(&source);
    write_class("@/val/TEST/a", 1, 4);
    options.validation = 0.5;
    CHECK_OK(open_at("images:@/val", &options, &source));
    CHECK(source.n_samples[QN_TRAIN] == 6 && source.n_samples[QN_TEST] == 1 &&
          source.n_samples[QN_VALIDATION] == 2);
    CHECK_OK(source.read_class(source.self, QN_VALIDATION, 1, &y));
    CHECK(y == 1);
    qn_data_close(&source);
    options.validation = 0;
    write_class("@/val/validation/a", 1, 4);
    CHECK_OPEN_FAILS("images:@/val", QN_ERROR_FORMAT, "which say the same");
    /* test alone; beside classes it may be one */
    write_class("@/alone/test/a", 2, 1);
    write_class("@/alone/test/b", 1, 1);
    CHECK_OK(open_at("images:@/alone", &options, &source));
    CHECK(source.n_samples[QN_TRAIN] == 0 && source.n_samples[QN_TEST] == 3);
    CHECK(source.preparation.n_classes == 2);
    qn_data_close(&source);
    write_class("@/alone/c", 1, 1);
    CHECK_OPEN_FAILS("images:@/alone", QN_ERROR_FORMAT, "is test a class, or");
    /* trains and cars */
    write_class("@/words/train", 3, 1);
    write_class("@/words/valid", 3, 200);
    CHECK_OK(open_at("images:@/words", &options, &source));
    CHECK(source.preparation.n_classes == 2 &&
          source.n_samples[QN_TRAIN] + source.n_samples[QN_TEST] == 6);
    qn_data_close(&source);
}

/* Pictures in folders below those of classes, and which of the folders is the class. */
static void check_levels(void) {
    qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .sample = QN_SHAPE(3, 3, 1)};
    qn_data_source source;
    make_folder("@/deep/animals");
    make_folder("@/deep/plants");
    write_class("@/deep/animals/cat", 2, 1);
    write_class("@/deep/animals/.hidden", 2, 1);
    write_class("@/deep/animals/dog", 2, 2);
    write_class("@/deep/plants/cat", 2, 3);
    write_text("@/deep/plants/Thumbs.db", "x");
    write_text("@/deep/.DS_Store", "x");
    static const struct {
        qn_classes_from from;
        int n;
        const char *first, *last;
    } ways[] = {{QN_CLASSES_FROM_TOP, 2, "animals", "plants"},
                {QN_CLASSES_FROM_LEAF, 2, "cat", "dog"},
                {QN_CLASSES_FROM_PATH, 3, "animals/cat", "plants/cat"}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        options.classes_from = ways[i].from;
        CHECK_OK(open_at("images:@/deep", &options, &source));
        CHECK(source.n_samples[QN_TRAIN] + source.n_samples[QN_TEST] == 6);
        CHECK(source.preparation.n_classes == ways[i].n && source.facts->dropped.n == 0);
        CHECK(strcmp(source.preparation.class_names[0], ways[i].first) == 0);
        CHECK(strcmp(source.preparation.class_names[ways[i].n - 1], ways[i].last) == 0);
        qn_data_close(&source);
    }
    make_folder("@/unpacked/set");
    write_class("@/unpacked/set/a", 2, 1);
    write_class("@/unpacked/set/b", 2, 1);
    CHECK_OPEN_FAILS("images:@/unpacked", QN_ERROR_FORMAT, "--classes-from leaf");
}

/* Tables of files and labels. */
static void check_labels(void) {
    qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .sample = QN_SHAPE(3, 3, 1)};
    qn_data_source source;
    int32_t y;
    make_folder("@/flat");
    write_class("@/flat/pictures", 4, 9);
    write_text("@/l.csv",
               "id,annotator,label\n0,ann,dog\n1,ann,cat\n2,bob,dog\n9,bob,cat\n3,bob,\n");
    CHECK_OK(open_at("images:@/flat/pictures,@/l.csv", &options, &source));
    CHECK(source.n_samples[QN_TRAIN] + source.n_samples[QN_TEST] == 3);
    CHECK(source.preparation.n_classes == 2 && source.facts->dropped.n == 2);
    CHECK(strcmp(source.preparation.class_names[0], "cat") == 0);
    qn_data_close(&source);
    CHECK_OK(open_at("images:@/flat/pictures,@/l.csv,label=annotator", &options, &source));
    CHECK(strcmp(source.preparation.class_names[0], "ann") == 0);
    qn_data_close(&source);
    write_text("@/l.csv", "split,filename,class\ntrain,/data/upload/0.png,a\ntrain,1.png,b\n"
                          "valid,3.png,b\ntest,2.png,a\n");
    CHECK_OK(open_at("images:@/flat/pictures,@/l.csv", &options, &source));
    CHECK(source.n_samples[QN_TRAIN] == 2 && source.n_samples[QN_TEST] == 1 &&
          source.n_samples[QN_VALIDATION] == 1);
    CHECK_OK(source.read_class(source.self, QN_VALIDATION, 0, &y));
    CHECK(y == 1);
    qn_data_close(&source);
    write_text("@/l.csv", "0.png,a\n1.png,b\n0.png,b\n");
    CHECK_OPEN_FAILS("images:@/flat/pictures,@/l.csv", QN_ERROR_FORMAT, "0.png is of class");
    write_text("@/l.csv", "file,x,y\n0.png,1,2\n");
    CHECK_OPEN_FAILS("images:@/flat/pictures,@/l.csv", QN_ERROR_FORMAT, "label=NAME");
    write_text("@/l.csv", "file,label\nnone.png,x\n");
    CHECK_OPEN_FAILS("images:@/flat/pictures,@/l.csv", QN_ERROR_FORMAT, "no column names pictures");
    CHECK_OPEN_FAILS("images:@/nowhere,@/l.csv", QN_ERROR_IO, "there is no folder");
}

static int64_t n_progress, n_progress_calls;

static void keep_progress(void *user, const char *what, int64_t n_done, int64_t n) {
    (void)user;
    (void)what;
    n_progress = n_done;
    n_progress_calls++;
    CHECK(n_done <= n);
}

/* What cannot be read is named, skipped and counted; a class that nothing is left of is none. */
static void check_scan(void) {
    const qn_log log = {NULL, keep_notice, keep_progress};
    qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .log = &log,
                               .sample = QN_SHAPE(3, 3, 1)};
    qn_data_source source;
    uint8_t x[9];
    int32_t y;
    write_class("@/mixed/a", 3, 1);
    write_class("@/mixed/c", 40, 3);
    make_folder("@/mixed/b");
    write_text("@/mixed/a/0.png", "");
    write_text("@/mixed/c/39.png", "broken");
    n_notices = 0;
    CHECK_OK(open_at("images:@/mixed", &options, &source));
    CHECK(n_notices == 4 && strstr(last_notice, "mixed/b has no readable image"));
    CHECK(n_progress == 43 && n_progress_calls == 2);
    CHECK(source.n_samples[0] + source.n_samples[1] == 41);
    CHECK(source.preparation.n_classes == 2);
    CHECK(strcmp(source.preparation.class_names[1], "c") == 0);
    CHECK_OK(source.set_size(source.self, 3, 3, 1));
    for (int i = 0; i < source.n_samples[0]; i++) {
        CHECK_OK(source.read(source.self, QN_TRAIN, i, x, &y));
        CHECK(x[0] == (y ? 3 : 1));
    }
    qn_data_close(&source);
    /* nothing is decoded again, and the same is said */
    n_notices = 0;
    n_progress_calls = 0;
    CHECK_OK(open_at("images:@/mixed", &options, &source));
    CHECK(n_notices == 4 && n_progress_calls == 0 && source.n_samples[0] > 20);
    qn_data_close(&source);
    options.strict = true;
    CHECK_FAILS(open_at("images:@/mixed", &options, &source), QN_ERROR_FORMAT, "a/0.png: empty");
    check_open_survives("images:@/mixed");
}

/* Pixels that were kept are read even where the files are gone; without them another file of the
 * class stands for one that went. */
static void check_gone(void) {
    const qn_log log = {NULL, keep_notice, NULL};
    qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .log = &log,
                               .sample = QN_SHAPE(3, 3, 1)};
    qn_data_source source;
    uint8_t x[4 * 4];
    int32_t y;
    write_class("@/gone/a", 3, 1);
    write_class("@/gone/b", 3, 2);
    write_class("@/gone/c", 30, 3);
    for (int is_kept = 1; is_kept >= 0; is_kept--) {
        CHECK_OK(open_at("images:@/gone", &options, &source));
        const int side = is_kept ? 3 : 4; /* another size than was looked at: read from files */
        CHECK_OK(source.set_size(source.self, side, side, 1));
        write_text("@/gone/b/0.png", "broken");
        n_notices = 0;
        for (int i = 0; i < source.n_samples[0]; i++) {
            CHECK_OK(source.read(source.self, QN_TRAIN, i, x, &y));
            CHECK(x[0] == y + 1);
        }
        CHECK(n_notices == !is_kept);
        qn_data_close(&source);
        write_class("@/gone/b", 3, 2);
    }
}

int main(void) {
    files_begin();
    check_png();
    check_jpeg();
    check_orientations();
    check_written_elsewhere();
    check_old_bmp();
    check_large();
    check_broken();
    check_prepare();
    check_folder_held_out();
    check_folder_split();
    check_layouts();
    check_levels();
    check_labels();
    check_scan();
    check_gone();
    files_end();
    return checks_finish();
}
