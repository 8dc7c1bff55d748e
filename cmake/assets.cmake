# What reports carry with them (src/report/assets.h), compressed: our style and script, and Chart.js,
# of Debian's libjs-chart.js, after its licence.
set(QUERN_ASSETS ${PROJECT_BINARY_DIR}/assets)
set(asset_sources ${PROJECT_SOURCE_DIR}/src/report/page)

find_file(CHARTJS chart.min.js
  PATHS /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist NO_DEFAULT_PATH
  DOC "Chart.js 3, minified")
if(NOT CHARTJS)
  message(FATAL_ERROR "Chart.js was not found, which draws the charts of reports: install "
    "libjs-chart.js (script/bootstrap does), or say where it is with -DCHARTJS=PATH/chart.min.js")
endif()
file(READ ${CHARTJS} chartjs_head LIMIT 200)
if(NOT chartjs_head MATCHES "Chart.js v3\\.")
  message(FATAL_ERROR "${CHARTJS} is no Chart.js of version 3; give one with -DCHARTJS=PATH")
endif()

# NAME.gz from files one after another.
function(quern_asset name)
  string(REPLACE ";" "' '" files "${ARGN}")
  add_custom_command(OUTPUT ${QUERN_ASSETS}/${name}.gz
    COMMAND ${CMAKE_COMMAND} -E make_directory ${QUERN_ASSETS}
    COMMAND sh -c "cat '${files}' | gzip -9n > '${QUERN_ASSETS}/${name}.gz'"
    DEPENDS ${ARGN} COMMENT "Compressing ${name}" VERBATIM)
endfunction()
quern_asset(page.css ${asset_sources}/page.css)
quern_asset(page.js ${asset_sources}/canvas.js ${asset_sources}/plan.js ${asset_sources}/lanes.js ${asset_sources}/matrix.js ${asset_sources}/page.js)
quern_asset(charts.js ${asset_sources}/charts.licence.js ${CHARTJS})

set_source_files_properties(src/report/assets.c PROPERTIES
  COMPILE_DEFINITIONS "QN_ASSETS=\"${QUERN_ASSETS}\""
  OBJECT_DEPENDS "${QUERN_ASSETS}/page.css.gz;${QUERN_ASSETS}/page.js.gz;${QUERN_ASSETS}/charts.js.gz")
