/* Sounds and texts as series: what a spectrum shows, whatever a file's rate and numbers; words that
 * are equal and alike; bad files. */
#include "data_files.h"

#include "data/series/wav.h"

#include <math.h>

enum { STEPS = QN_SOUND_STEPS, BANDS = QN_SOUND_BANDS, MOST_WAV = 1 << 21 };

static unsigned char wav[MOST_WAV];

static void put(unsigned char **to, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++, value >>= 8)
        *(*to)++ = (unsigned char)value;
}

/* How a file is written. */
typedef struct wav_how {
    int rate, channels, bits;
    bool are_floats, is_extended;
} wav_how;

static void put_number(unsigned char **to, const wav_how *how, double value) {
    const float number = (float)value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    if (!how->are_floats)
        bits = how->bits == 8 ? (uint32_t)(value * 127 + 128)
                              : (uint32_t)(int32_t)(value * ldexp(0.99, how->bits - 1));
    put(to, bits, how->bits / 8);
}

/* A tone after so many seconds of silence. */
static size_t make_wav(const wav_how *how, double hz, double silent, double seconds) {
    unsigned char *to = wav;
    const int n = (int)(how->rate * (silent + seconds)), each = how->channels * how->bits / 8;
    memcpy(to, "RIFF....WAVEfmt ", 16);
    to += 16;
    put(&to, how->is_extended ? 40 : 16, 4);
    put(&to, how->is_extended ? 0xfffe : how->are_floats ? 3 : 1, 2);
    put(&to, (uint32_t)how->channels, 2);
    put(&to, (uint32_t)how->rate, 4);
    put(&to, (uint32_t)(how->rate * each), 4);
    put(&to, (uint32_t)each, 2);
    put(&to, (uint32_t)how->bits, 2);
    for (int i = 0; i < 6 && how->is_extended; i++)
        put(&to, i == 2 ? (how->are_floats ? 3 : 1) : 0, 4);
    memcpy(to, "LIST\3\0\0\0abc\0data", 16); /* a chunk of an odd size before the data */
    to += 16;
    put(&to, (uint32_t)(n * each), 4);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < how->channels; c++)
            put_number(&to, how,
                       i < how->rate * silent ? 0 : 0.5 * sin(6.283185307 * hz * i / how->rate));
    return (size_t)(to - wav);
}

static void write_wav(const char *path, const wav_how *how, double hz, double silent,
                      double seconds) {
    write_file(path, wav, make_wav(how, hz, silent, seconds));
}

/* The band that is loudest in the middle of the second. */
static int loudest_of(const uint8_t *x) {
    int best = 0;
    for (int b = 0; b < BANDS; b++)
        best = x[STEPS / 2 * BANDS + b] > x[STEPS / 2 * BANDS + best] ? b : best;
    return best;
}

static void check_sounds(void) {
    static const wav_how hows[] = {{8000, 1, 16, false, false}, {16000, 2, 24, false, false},
                                   {44100, 1, 32, true, false}, {22050, 1, 8, false, false},
                                   {16000, 1, 32, false, true}, {48000, 3, 32, true, true}};
    enum { N = sizeof hows / sizeof hows[0] };
    qn_data_source source;
    uint8_t x[STEPS * BANDS];
    int32_t y;
    make_folder("@/sounds/low");
    make_folder("@/sounds/high");
    for (int i = 0; i < N; i++) {
        char path[64];
        snprintf(path, sizeof path, "@/sounds/low/%d.wav", i);
        write_wav(path, &hows[i], 400, 0, 1.2);
        snprintf(path, sizeof path, "@/sounds/high/%d.WAV", i);
        write_wav(path, &hows[i], 2500, 1.5, 1.1);
    }
    write_text("@/sounds/low/notes.txt", "no sound");
    CHECK_OK(open_at("sounds:@/sounds", NULL, &source));
    CHECK(source.n_samples[QN_TRAIN] == 2 * N && source.preparation.n_classes == 2);
    CHECK(strcmp(source.preparation.class_names[0], "high") == 0 && source.dtype == QN_U8);
    CHECK(source.sample.dims[0] == STEPS && source.sample.dims[2] == BANDS);
    for (int i = 0; i < 2 * N; i++) {
        CHECK_OK(source.read(source.self, QN_TRAIN, i, x, &y));
        CHECK(y == (i >= N)); /* folders in the order of their names */
        /* mel: 400 Hz is band 5 of 32, 2500 Hz band 18, up to rounding at the edges */
        CHECK(abs(loudest_of(x) - (i < N ? 18 : 5)) <= 1);
        for (int s = 1; s < STEPS - 4; s++) /* the second with the tone, without the silence */
            CHECK(x[s * BANDS + loudest_of(x)] > 180);
    }
    qn_data_close(&source);
    check_open_survives("sounds:@/sounds");
}

static void check_sounds_alone(void) {
    const wav_how how = {8000, 1, 16, false, false};
    qn_data_source source;
    uint8_t x[STEPS * BANDS];
    int32_t y;
    make_folder("@/alone");
    write_wav("@/alone/a.wav", &how, 400, 0, 0.3);
    CHECK_OK(open_at("sounds:@/alone", NULL, &source));
    CHECK(source.n_samples[QN_TRAIN] == 1 && source.preparation.n_classes == 1);
    CHECK_OK(source.read(source.self, QN_TRAIN, 0, x, &y));
    CHECK(x[10 * BANDS + 5] > 180 && x[40 * BANDS + 5] == 0); /* it ends in silence */
    qn_data_close(&source);
}

/* A file of the folder, of so many bytes of `wav`. */
static void check_bad(size_t bytes, qn_status status, const char *text) {
    write_file("@/bad/b.wav", wav, bytes);
    CHECK_OPEN_FAILS("sounds:@/bad", status, "bad/b.wav");
    CHECK_OPEN_FAILS("sounds:@/bad", status, text);
}

static void check_bad_sounds(void) {
    const wav_how how = {8000, 1, 32, true, false};
    const uint32_t not_a_number = 0x7fc00000;
    make_folder("@/bad");
    CHECK_OPEN_FAILS("sounds:@/bad", QN_ERROR_FORMAT, "holds no sounds");
    const size_t n = make_wav(&how, 400, 0, 0.1);
    check_bad(3, QN_ERROR_FORMAT, "not a WAV file");
    check_bad(12, QN_ERROR_FORMAT, "without data");
    check_bad(36 + 16 + 4, QN_ERROR_FORMAT, "without sound");
    memcpy(wav + n - 8, &not_a_number, sizeof not_a_number);
    check_bad(n, QN_ERROR_FORMAT, "number 799 of the wave");
    wav[20] = 0x55; /* MP3 in a WAV file */
    check_bad(n, QN_ERROR_UNSUPPORTED, "of kind 85");
    wav[20] = 3;
    wav[22] = 0;
    check_bad(n, QN_ERROR_UNSUPPORTED, "0 channels");
}

/* ---- texts ---- */

static const uint8_t *read_text(const qn_data_source *source, int i, int32_t *class) {
    static uint8_t x[2][32 * 32];
    CHECK_OK(source->read(source->self, QN_TRAIN, i, x[i % 2], class));
    return x[i % 2];
}

static int distance(const uint8_t *a, const uint8_t *b) {
    int sum = 0;
    for (int c = 0; c < 32; c++)
        sum += abs(a[c] - b[c]);
    return sum;
}

static void check_texts(void) {
    qn_data_source source;
    int32_t y;
    write_text("@/t.csv", "text,class\n\"Walking, WALKED.\",z\nwalking dog,a\n!?,z\n");
    CHECK_OK(open_at("texts:@/t.csv", NULL, &source));
    CHECK(source.n_samples[QN_TRAIN] == 3 && source.preparation.n_classes == 2);
    CHECK(strcmp(source.preparation.class_names[0], "a") == 0);
    const uint8_t *a = read_text(&source, 0, &y);
    CHECK(y == 1 && memcmp(a, a + 64, 64) == 0); /* two words, over and over */
    const uint8_t *b = read_text(&source, 1, &y);
    CHECK(y == 0 && memcmp(a, b, 32) == 0);                   /* equal words are equal */
    CHECK(distance(a, a + 32) * 3 < distance(a, b + 32) * 2); /* walked is like walking */
    a = read_text(&source, 2, &y);
    CHECK(a[0] == 128 && a[1023] == 128);
    qn_data_close(&source);
    write_text("@/alone.csv", "one text\nanother one\n");
    CHECK_OK(open_at("texts:@/alone.csv", NULL, &source));
    CHECK(source.n_samples[QN_TRAIN] == 2 && source.preparation.n_classes == 1);
    qn_data_close(&source);
    check_open_survives("texts:@/t.csv");
    write_text("@/t.csv", "a,b\nyes, it is,c\n");
    CHECK_OPEN_FAILS("texts:@/t.csv", QN_ERROR_FORMAT, "line 2: 3 fields");
    write_text("@/t.csv", "text,class\n");
    CHECK_OPEN_FAILS("texts:@/t.csv", QN_ERROR_FORMAT, "no text");
}

int main(void) {
    files_begin();
    check_sounds();
    check_sounds_alone();
    check_bad_sounds();
    check_texts();
    files_end();
    return checks_finish();
}
