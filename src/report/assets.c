/* See assets.h. The build leaves each file as NAME.gz in the folder QN_ASSETS, and the assembler
 * includes it from there. */
#include "report/assets.h"

#include "base/embed.h"
#include "base/status.h"

#include <zlib.h>

QN_EMBED(qn_asset_style, QN_ASSETS "/page.css.gz");
QN_EMBED(qn_asset_charts, QN_ASSETS "/charts.js.gz");
QN_EMBED(qn_asset_script, QN_ASSETS "/page.js.gz");

static const struct {
    const unsigned char *begin, *end;
} assets[] = {
    [QN_ASSET_STYLE] = {qn_asset_style, qn_asset_style_end},
    [QN_ASSET_CHARTS] = {qn_asset_charts, qn_asset_charts_end},
    [QN_ASSET_SCRIPT] = {qn_asset_script, qn_asset_script_end},
};

enum { PIECE_BYTES = 16 * 1024, GZIP_WINDOW = 15 + 16 };

void qn_asset_put(qn_output *output, qn_asset asset) {
    unsigned char piece[PIECE_BYTES];
    z_stream stream = {.next_in = (z_const Bytef *)assets[asset].begin,
                       .avail_in = (uInt)(assets[asset].end - assets[asset].begin)};
    int result = inflateInit2(&stream, GZIP_WINDOW);
    while (result == Z_OK && output->status == QN_OK) {
        stream.next_out = piece;
        stream.avail_out = sizeof piece;
        result = inflate(&stream, Z_NO_FLUSH);
        qn_output_bytes(output, piece, sizeof piece - stream.avail_out);
    }
    inflateEnd(&stream);
    if (result != Z_OK && result != Z_STREAM_END && output->status == QN_OK)
        output->status = qn_fail(QN_ERROR_MEMORY, "no memory to unpack a part of the report");
}
