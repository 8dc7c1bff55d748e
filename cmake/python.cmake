# The Python package as it is installed, in build/NAME/python/quern: its modules, the list of settings that the
# command prints, and the shared library. A wheel is this folder and its description (script/wheel, pyproject.toml).
# Where Debian's archives are used (QUERN_STATIC_COMMAND), the library has all that it needs inside but libc, so
# that it runs on other systems too; it is made of the objects that libquern.so is made of.
set(python_package ${PROJECT_BINARY_DIR}/python/quern)
file(GLOB python_modules CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python/quern
  ${PROJECT_SOURCE_DIR}/python/quern/*.py ${PROJECT_SOURCE_DIR}/python/quern/py.typed)
foreach(module ${python_modules})
  configure_file(python/quern/${module} ${python_package}/${module} COPYONLY)
endforeach()

add_custom_command(OUTPUT ${python_package}/settings.jsonl
  COMMAND ${CMAKE_COMMAND} -E make_directory ${python_package}
  COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:quern> help --settings > ${python_package}/settings.jsonl
  DEPENDS quern VERBATIM)

set(python_library quern_shared)
if(QUERN_STATIC_COMMAND)
  set(python_library quern_bundled)
  # Debian's archives are compiled for programs: they take stderr to be the program's own. In a library it is
  # libc's, behind a pointer of ours.
  set(python_archives)
  foreach(archive PNG JPEG)
    set(copy ${PROJECT_BINARY_DIR}/python/lib${archive}.a)
    add_custom_command(OUTPUT ${copy}
      COMMAND ${CMAKE_OBJCOPY} --redefine-sym stderr=qn_archive_stderr ${STATIC_${archive}} ${copy} VERBATIM)
    list(APPEND python_archives ${copy})
  endforeach()
  add_custom_target(python_archives DEPENDS ${python_archives})
  add_library(quern_bundled SHARED ${quern_objects} ${CJSON_SOURCE} python/archive_stderr.c)
  add_dependencies(quern_bundled python_archives)
  set_target_properties(quern_bundled PROPERTIES C_VISIBILITY_PRESET hidden LINKER_LANGUAGE C
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/lib OUTPUT_NAME quern)
  target_link_libraries(quern_bundled PRIVATE ${python_archives} ${STATIC_ZLIB} ${STATIC_YAJL} ${STATIC_UTF8PROC}
    ${STATIC_PROTOBUF} Threads::Threads m)
  target_link_options(quern_bundled PRIVATE -Wl,--exclude-libs,ALL -Wl,-Bsymbolic-functions)
endif()
if(NOT QUERN_SANITIZE)
  set(strip_library ${CMAKE_STRIP} --strip-unneeded)
else()
  set(strip_library ${CMAKE_COMMAND} -E true)
endif()
add_custom_command(OUTPUT ${python_package}/libquern.so
  COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:${python_library}> ${python_package}/libquern.so
  COMMAND ${strip_library} ${python_package}/libquern.so
  DEPENDS ${python_library} VERBATIM)
add_custom_target(quern_python ALL DEPENDS ${python_package}/settings.jsonl ${python_package}/libquern.so)

install(DIRECTORY ${python_package}/ DESTINATION quern COMPONENT python EXCLUDE_FROM_ALL
  PATTERN __pycache__ EXCLUDE)
