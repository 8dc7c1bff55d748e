# What `cmake --install` puts where: libraries, headers, the command and its manual page, the CMake
# package (quern::quern, quern::quern_static) and a pkg-config file. All paths in it are relative
# to where it lies, so that the folder may be moved after installation.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/quern)

install(DIRECTORY include/quern TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
# Two export sets: who uses the shared library needs none of the development packages.
install(TARGETS quern_shared EXPORT quern-shared
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS quern_static EXPORT quern-static
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT quern-shared NAMESPACE quern:: DESTINATION ${package_folder})
install(EXPORT quern-static NAMESPACE quern:: DESTINATION ${package_folder})
if(TARGET quern)
  install(TARGETS quern RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES docs/quern.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(DIRECTORY share/maps DESTINATION ${CMAKE_INSTALL_DATADIR}/quern
    FILES_MATCHING PATTERN "*.csv")
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

configure_package_config_file(cmake/quernConfig.cmake.in quernConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(quernConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/quernConfig.cmake ${PROJECT_BINARY_DIR}/quernConfigVersion.cmake
  DESTINATION ${package_folder})

# From lib/pkgconfig (or lib/x86_64-linux-gnu/pkgconfig) back to the prefix.
file(RELATIVE_PATH pkgconfig_to_prefix
  /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" pkgconfig_to_prefix "${pkgconfig_to_prefix}")
configure_file(cmake/quern.pc.in quern.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/quern.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
