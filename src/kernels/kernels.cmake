# The kernels' sources and the flags of each. Included by the top CMakeLists.txt; paths are its own.
set(QUERN_KERNEL_SOURCES
  src/kernels/kernels.c
  src/kernels/ref/ref_f32.c
  src/kernels/ref/ref_f64.c)

# No result changes by these: they allow a loop with a choice in it to become vector code.
set(QUERN_KERNEL_FLAGS -O3 -fno-math-errno -fno-trapping-math)
set_source_files_properties(${QUERN_KERNEL_SOURCES} PROPERTIES
  COMPILE_OPTIONS "${QUERN_KERNEL_FLAGS}")
