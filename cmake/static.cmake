# The command as one static program, that needs nothing of the system it runs on (build/NAME/quern-static).
# Debian's libraries are there as archives but for cJSON, which is compiled from Debian's source package.
set(CJSON_SOURCE ${PROJECT_BINARY_DIR}/cjson/source/cJSON.c)
find_program(APT_GET apt-get)
find_program(DPKG_SOURCE dpkg-source)
if(NOT APT_GET OR NOT DPKG_SOURCE)
  message(FATAL_ERROR "QUERN_STATIC_COMMAND needs apt-get and dpkg-source (dpkg-dev), which get cJSON's source")
endif()
add_custom_command(OUTPUT ${CJSON_SOURCE}
  COMMAND ${PROJECT_SOURCE_DIR}/script/get-source cjson ${PROJECT_BINARY_DIR}/cjson
  COMMENT "Getting cJSON's source from Debian" VERBATIM)

add_executable(quern_static_command ${cli_sources} ${CJSON_SOURCE})
set_source_files_properties(${CJSON_SOURCE} PROPERTIES COMPILE_OPTIONS "-w")
set_target_properties(quern_static_command PROPERTIES OUTPUT_NAME quern-static)
target_include_directories(quern_static_command PRIVATE src include)
target_compile_options(quern_static_command PRIVATE -Os)
target_link_options(quern_static_command PRIVATE -static)
function(quern_find_archive variable name)
  find_library(${variable} ${name} PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH REQUIRED)
endfunction()
quern_find_archive(STATIC_PNG libpng16.a)
quern_find_archive(STATIC_JPEG libjpeg.a)
quern_find_archive(STATIC_ZLIB libz.a)
quern_find_archive(STATIC_YAJL libyajl_s.a)
quern_find_archive(STATIC_UTF8PROC libutf8proc.a)
quern_find_archive(STATIC_PROTOBUF libprotobuf-c.a)
if(QUERN_STATIC_SQLITE) # -u, as src/learn/database.c refers to it weakly
  quern_find_archive(STATIC_SQLITE libsqlite3.a)
  target_link_libraries(quern_static_command PRIVATE -Wl,-u,sqlite3_open_v2 ${STATIC_SQLITE})
endif()
target_include_directories(quern_static_command PRIVATE ${CJSON_INCLUDE_DIRS} ${YAJL_INCLUDE_DIRS})
target_link_libraries(quern_static_command PRIVATE $<TARGET_FILE:quern_static> ${STATIC_PNG} ${STATIC_JPEG}
  ${STATIC_ZLIB} ${STATIC_YAJL} ${STATIC_UTF8PROC} ${STATIC_PROTOBUF} Threads::Threads m)
add_dependencies(quern_static_command quern_static)
