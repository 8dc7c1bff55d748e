/* Files embedded in reports: style, script, and the chart library. They are stored compressed in
 * the program. */
#ifndef QN_REPORT_ASSETS_H
#define QN_REPORT_ASSETS_H

#include "format/output.h"

typedef enum qn_asset { QN_ASSET_STYLE, QN_ASSET_CHARTS, QN_ASSET_SCRIPT } qn_asset;

/* Puts a file's whole text. */
void qn_asset_put(qn_output *output, qn_asset asset);

#endif
