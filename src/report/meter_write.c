/* The reports of a meter, by format; see quern/meter.h. */
#include "base/status.h"
#include "meter/meter.h"
#include "report/profile.h"

qn_status qn_meter_write(qn_meter *meter, qn_meter_format format, const char *path) {
    QN_NEED(meter, "meter");
    QN_NEED(path, "path");
    const qn_measurement *m;
    QN_TRY(qn_meter_measure(meter, &m));
    switch (format) {
    case QN_METER_CSV:
        return qn_report_csv(m, path);
    case QN_METER_TRACE:
        return qn_report_trace(m, qn_meter_title(meter), path);
    case QN_METER_HTML:
        return qn_report_html(m->arena->allocator, m, qn_meter_title(meter), path);
    case QN_METER_JSON:
        return qn_report_json(m, qn_meter_title(meter), path);
    }
    return qn_fail(QN_ERROR_ARGUMENT, "cannot write %s: there is no report format %d", path,
                   (int)format);
}
