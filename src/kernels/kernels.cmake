# The kernels' sources and the flags of each. Included by the top CMakeLists.txt, which gives paths
# from the top. A set of instructions is used only where the processor has it (kernels.c), so its
# files alone are compiled for it, and everything in them is static but the table.
set(QUERN_KERNEL_SOURCES
  src/kernels/kernels.c
  src/kernels/blocks.c
  src/kernels/language.c
  src/kernels/language/ref_f32.c
  src/kernels/language/ref_f64.c
  src/kernels/integer.c
  src/kernels/half.c
  src/kernels/half/convert.c
  src/kernels/half/wide.c
  src/kernels/peak.c
  src/kernels/ref/ref_f32.c
  src/kernels/ref/ref_f64.c
  src/kernels/ref/integer.c
  src/kernels/ref/peak.c)

# These change no result: they allow a loop with a choice in it to become vector code, and keep loops
# over a few floats from becoming calls of memset and memcpy.
set(QUERN_KERNEL_FLAGS -fno-math-errno -fno-trapping-math)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND QUERN_KERNEL_FLAGS -fno-tree-loop-distribute-patterns)
endif()
set_source_files_properties(${QUERN_KERNEL_SOURCES} PROPERTIES
  COMPILE_OPTIONS "${QUERN_KERNEL_FLAGS}")

# The float reference runs only where the processor has none of the sets below.
set_source_files_properties(src/kernels/ref/ref_f32.c PROPERTIES
  COMPILE_OPTIONS "${QUERN_KERNEL_FLAGS};-Os")

# With -O3 a whole table would be half as large again, and no faster; its innermost loops are in tile.c.
set(QUERN_TABLE_FLAGS ${QUERN_KERNEL_FLAGS})
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND QUERN_TABLE_FLAGS -ftree-vectorize -fvect-cost-model=dynamic -funswitch-loops)
endif()
list(APPEND QUERN_KERNEL_FLAGS -O3)

# A choice a call.
list(APPEND QUERN_KERNEL_SOURCES src/kernels/rules.c src/kernels/tilings.c)
quern_make_small("src/kernels/rules.c;src/kernels/tilings.c" EXCEPT none)

# A tile's sums are fused multiply-adds; contraction is on there and nowhere else.
# A set that is left out (QUERN_WITH_NAME) counts as one that the processor does not have.
function(quern_kernel_set name)
  string(TOUPPER ${name} option)
  if(NOT QUERN_WITH_${option})
    return()
  endif()
  set_property(SOURCE src/os/cpu.c src/kernels/kernels.c src/kernels/peak.c APPEND PROPERTY
    COMPILE_DEFINITIONS QN_WITH_${option})
  set(files src/kernels/${name}/tile.c src/kernels/${name}/peak.c src/kernels/${name}/kernels.c)
  set_source_files_properties(${files} PROPERTIES
    COMPILE_OPTIONS "${QUERN_TABLE_FLAGS};${ARGN}")
  set_source_files_properties(src/kernels/${name}/tile.c src/kernels/${name}/peak.c PROPERTIES
    COMPILE_OPTIONS "${QUERN_KERNEL_FLAGS};${ARGN};-ffp-contract=fast")
  set(QUERN_KERNEL_SOURCES ${QUERN_KERNEL_SOURCES} ${files} PARENT_SCOPE)
endfunction()

# Kernels of language models for an instruction set.
function(quern_language_set name)
  string(TOUPPER ${name} option)
  if(NOT QUERN_WITH_${option})
    return()
  endif()
  set_property(SOURCE src/kernels/language.c APPEND PROPERTY COMPILE_DEFINITIONS QN_WITH_${option})
  set_source_files_properties(src/kernels/language/${name}.c PROPERTIES
    COMPILE_OPTIONS "${QUERN_KERNEL_FLAGS};${ARGN}")
  set(QUERN_KERNEL_SOURCES ${QUERN_KERNEL_SOURCES} src/kernels/language/${name}.c PARENT_SCOPE)
endfunction()

# Kernels of whole numbers for an instruction set, and for it with a feature that some processors have
# (src/kernels/integer.c). Left out, the reference's are used.
function(quern_integer_set set name)
  string(TOUPPER ${set} option)
  if(NOT QUERN_WITH_${option} OR NOT QUERN_WITH_INTEGER)
    return()
  endif()
  set_property(SOURCE src/kernels/integer.c APPEND PROPERTY COMPILE_DEFINITIONS QN_WITH_INTEGER_${option})
  set_source_files_properties(src/kernels/integer/${name}.c PROPERTIES
    COMPILE_OPTIONS "${QUERN_KERNEL_FLAGS};${ARGN}")
  set(QUERN_KERNEL_SOURCES ${QUERN_KERNEL_SOURCES} src/kernels/integer/${name}.c PARENT_SCOPE)
endfunction()

# Kernels of 16-bit floats for an instruction set with a feature that some processors have
# (src/kernels/half.c). Left out, floats are multiplied.
function(quern_half_set set name)
  string(TOUPPER ${set} option)
  if(NOT QUERN_WITH_${option} OR NOT QUERN_WITH_INTEGER)
    return()
  endif()
  set_property(SOURCE src/kernels/half.c APPEND PROPERTY COMPILE_DEFINITIONS QN_WITH_HALF_${option})
  set_source_files_properties(src/kernels/half/${name}.c PROPERTIES
    COMPILE_OPTIONS "${QUERN_KERNEL_FLAGS};${ARGN}")
  set(QUERN_KERNEL_SOURCES ${QUERN_KERNEL_SOURCES} src/kernels/half/${name}.c PARENT_SCOPE)
endfunction()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  quern_kernel_set(avx2 -mavx2 -mfma)
  quern_kernel_set(avx512 -mavx512f -mavx512vl -mavx512dq -mavx512bw -mavx2 -mfma
    -mprefer-vector-width=512)
  set(avx512_flags -mavx512f -mavx512vl -mavx512dq -mavx512bw -mavx2 -mfma -mprefer-vector-width=512)
  quern_language_set(avx2 -mavx2 -mfma)
  quern_language_set(avx512 ${avx512_flags})
  quern_integer_set(avx2 avx2 -mavx2 -mfma)
  quern_integer_set(avx2 avxvnni -mavx2 -mfma -mavxvnni)
  quern_integer_set(avx512 avx512 ${avx512_flags})
  quern_integer_set(avx512 avx512vnni ${avx512_flags} -mavx512vnni)
  quern_half_set(avx512 avx512bf16 ${avx512_flags} -mavx512bf16)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  quern_kernel_set(neon)
  quern_language_set(neon)
  quern_integer_set(neon neon)
  quern_integer_set(neon dotprod -march=armv8.2-a+dotprod)
endif()
