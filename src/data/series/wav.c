/* WAV files (RIFF): PCM of 8, 16, 24 and 32 bits and floats of 32; see wav.h. */
#include "data/series/wav.h"

#include "base/status.h"

#include <string.h>

enum { PCM = 1, FLOATS = 3, EXTENSIBLE = 0xfffe };

static uint32_t word_at(const unsigned char *p, int bytes) {
    uint32_t value = 0;
    for (int i = bytes; i-- > 0;)
        value = value << 8 | p[i];
    return value;
}

/* What a chunk "fmt " says. */
static qn_status parse_format(const unsigned char *p, size_t bytes, qn_wav *wav) {
    if (bytes < 16)
        return qn_fail(QN_ERROR_FORMAT, "a WAV file whose format is cut off");
    uint32_t kind = word_at(p, 2);
    const uint32_t channels = word_at(p + 2, 2), rate = word_at(p + 4, 4);
    const uint32_t bits = word_at(p + 14, 2);
    if (kind == EXTENSIBLE && bytes >= 26)
        kind = word_at(p + 24, 2);
    const bool is_pcm = kind == PCM && (bits == 8 || bits == 16 || bits == 24 || bits == 32);
    if (!is_pcm && !(kind == FLOATS && bits == 32))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "a WAV file of kind %u with %u bits; known are PCM of 8, 16, 24 and 32 bits "
                       "and floats of 32",
                       kind, bits);
    if (channels < 1 || channels > 16 || rate < 4000 || rate > 384000)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "a WAV file of %u channels at %u Hz; 1 to 16 at 4000 to 384000 are read",
                       channels, rate);
    wav->channels = (int)channels;
    wav->rate = (int)rate;
    wav->number_bytes = (int)bits / 8;
    wav->are_floats = kind == FLOATS;
    return QN_OK;
}

qn_status qn_wav_parse(const unsigned char *data, size_t bytes, qn_wav *wav) {
    *wav = (qn_wav){0};
    if (bytes < 12 || memcmp(data, "RIFF", 4) != 0 || memcmp(data + 8, "WAVE", 4) != 0)
        return qn_fail(QN_ERROR_FORMAT, "not a WAV file (no RIFF and WAVE at its beginning)");
    for (size_t at = 12; bytes - at >= 8;) {
        const size_t left = bytes - at - 8, told = word_at(data + at + 4, 4);
        const size_t size = told < left ? told : left;
        if (memcmp(data + at, "fmt ", 4) == 0)
            QN_TRY(parse_format(data + at + 8, size, wav));
        if (memcmp(data + at, "data", 4) == 0) {
            if (wav->channels == 0)
                return qn_fail(QN_ERROR_FORMAT, "a WAV file whose data come before their format");
            wav->data_offset = at + 8;
            wav->n_frames = size / (size_t)(wav->channels * wav->number_bytes);
            return wav->n_frames > 0 ? QN_OK : qn_fail(QN_ERROR_FORMAT, "a WAV file without sound");
        }
        if (left - size < (size & 1))
            break;
        at += 8 + size + (size & 1);
    }
    return qn_fail(QN_ERROR_FORMAT, "a WAV file without data");
}

static float number_at(const unsigned char *p, const qn_wav *wav) {
    const uint32_t bits = word_at(p, wav->number_bytes);
    float value;
    if (wav->are_floats) {
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    if (wav->number_bytes == 1)
        return ((float)bits - 128.0f) / 128.0f;
    const int32_t whole = (int32_t)(bits << (32 - 8 * wav->number_bytes));
    return (float)whole / 2147483648.0f;
}

qn_status qn_wav_mix(const unsigned char *data, const qn_wav *wav, float *wave) {
    const unsigned char *p = data + wav->data_offset;
    for (size_t i = 0; i < wav->n_frames; i++) {
        float sum = 0;
        for (int c = 0; c < wav->channels; c++, p += wav->number_bytes) {
            const float value = number_at(p, wav);
            if (!(value >= -1e6f && value <= 1e6f))
                return qn_fail(QN_ERROR_FORMAT, "number %zu of the wave is not finite, or huge",
                               i + 1);
            sum += value;
        }
        wave[i] = sum / (float)wav->channels;
    }
    return QN_OK;
}
