/* Recordings in WAV files, and how they sound. */
#ifndef QN_DATA_WAV_H
#define QN_DATA_WAV_H

#include "base/memory.h"

#include <stdbool.h>
#include <stdint.h>

/* Numbers of the wave begin at data_offset: n_frames times one for each channel.
 *     1 <= channels <= 16, 4000 <= rate <= 384000
 *     data_offset + n_frames * channels * number_bytes <= bytes of the file */
typedef struct qn_wav {
    int channels, rate;
    int number_bytes; /* 1 (from 0 to 255), 2, 3, 4; of floats 4 */
    bool are_floats;
    size_t data_offset, n_frames;
} qn_wav;

/* From a whole file. Data that were cut off end where the file ends. Messages do not name it. */
qn_status qn_wav_parse(const unsigned char *data, size_t bytes, qn_wav *wav);

/* The mean of the channels, from -1 to 1: wave (n_frames). Floats that are not finite fail. */
qn_status qn_wav_mix(const unsigned char *data, const qn_wav *wav, float *wave);

enum { QN_SOUND_STEPS = 64, QN_SOUND_BANDS = 32 };

/* The spectrum of the loudest second of a wave: QN_SOUND_STEPS steps of 16 ms, in each the power of
 * QN_SOUND_BANDS bands of equal width in mel from 60 to 7600 Hz, as bytes: 255 is the loudest of
 * the second, 0 is 60 dB less. bytes (QN_SOUND_STEPS, QN_SOUND_BANDS); a shorter wave ends in
 * silence. */
qn_status qn_sound_describe(const qn_allocator *allocator, const float *wave, size_t n, int rate,
                            uint8_t *bytes);

#endif
