# Drivers of devices: an option for each row of src/driver/drivers.def, on unless it is turned off or
# the driver's own driver.cmake finds that it cannot be built here. What is off is left out.
set(driver_definitions)
set(QUERN_BUILDS_GPU OFF) # src/device/gpu, which a driver.cmake asks for
file(STRINGS src/driver/drivers.def driver_rows REGEX "^QN_DRIVER[(]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS src/driver/drivers.def)
foreach(row ${driver_rows})
  string(REGEX MATCH "^QN_DRIVER[(]([a-z]+), ([A-Z]+)," matched "${row}")
  set(driver ${CMAKE_MATCH_1})
  set(driver_option QUERN_WITH_${CMAKE_MATCH_2})
  set(driver_definition QN_WITH_${CMAKE_MATCH_2})
  option(${driver_option} "Training on devices of src/driver/${driver}, --device" ON)
  set(driver_is_built ${${driver_option}})
  if(driver_is_built)
    include(src/driver/${driver}/driver.cmake OPTIONAL)
  endif()
  if(driver_is_built)
    list(APPEND driver_definitions ${driver_definition}=1)
  else()
    list(APPEND driver_definitions ${driver_definition}=0)
    list(APPEND QUERN_DRIVERS_LEFT_OUT ${driver})
    list(FILTER core_sources EXCLUDE REGEX "^src/driver/${driver}/")
  endif()
endforeach()
set_source_files_properties(src/driver/driver.c PROPERTIES
  COMPILE_DEFINITIONS "${driver_definitions}" OBJECT_DEPENDS ${PROJECT_SOURCE_DIR}/src/driver/drivers.def)

if(QUERN_BUILDS_GPU)
  file(GLOB gpu_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/gpu/kernels/*.cl)
  set_source_files_properties(src/device/gpu/program.c PROPERTIES
    COMPILE_DEFINITIONS "QN_GPU_KERNEL_FOLDER=\"${PROJECT_SOURCE_DIR}/src/device/gpu/kernels\""
    OBJECT_DEPENDS "${gpu_kernels}")
else()
  list(FILTER core_sources EXCLUDE REGEX "^src/device/gpu/")
endif()
