# The program of the DSP (src/driver/hexagon/dsp), built by a clang that knows Hexagon and embedded in
# the library; without one the device is left out, and says so when it is asked for.
set(QUERN_HEXAGON_FLAGS --target=hexagon-unknown-linux-musl -mcpu=hexagonv66 -mhvx -mhvx-length=128b
  -O2 -ffreestanding -fno-builtin -nostdlib -static -fuse-ld=lld -Wl,-s)
if(NOT QUERN_HEXAGON_CLANG)
  find_program(QUERN_HEXAGON_CLANG NAMES clang-14 clang clang-15 clang-16 clang-17 clang-18 clang-19)
endif()
if(QUERN_HEXAGON_CLANG AND NOT DEFINED QUERN_HEXAGON_WORKS)
  file(WRITE ${PROJECT_BINARY_DIR}/hexagon/try.c
    "#include <hexagon_types.h>\n#include <hvx_hexagon_protos.h>\nHVX_Vector x; void _start(void) { x = Q6_V_vzero(); }\n")
  execute_process(COMMAND ${QUERN_HEXAGON_CLANG} ${QUERN_HEXAGON_FLAGS} -o try.elf try.c
    WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/hexagon RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  if(result EQUAL 0) # kept; a failure is tried again, as lld may be installed later
    set(QUERN_HEXAGON_WORKS ON CACHE INTERNAL "")
  endif()
endif()

if(QUERN_HEXAGON_WORKS)
  set(program ${PROJECT_BINARY_DIR}/hexagon/dsp.elf)
  file(GLOB dsp_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/driver/hexagon/dsp/*.c)
  file(GLOB dsp_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/driver/hexagon/dsp/*.h)
  add_custom_command(OUTPUT ${program}
    COMMAND ${QUERN_HEXAGON_CLANG} ${QUERN_HEXAGON_FLAGS} -Wall -Wextra -I ${PROJECT_SOURCE_DIR}/src
      -o ${program} ${dsp_sources}
    DEPENDS ${dsp_sources} ${dsp_headers} ${PROJECT_SOURCE_DIR}/src/ops/kept_shift.h VERBATIM)
  set_source_files_properties(src/driver/hexagon/process.c PROPERTIES
    COMPILE_DEFINITIONS "QN_HEXAGON_PROGRAM=\"${program}\"" OBJECT_DEPENDS ${program})
else()
  message(STATUS "The Hexagon DSP is left out: it needs a clang that knows it, and ld.lld (Debian: clang-14 lld)")
  set(driver_is_built OFF)
endif()
