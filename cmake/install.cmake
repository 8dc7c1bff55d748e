# What `cmake --install` puts where: libraries, headers, the command, its manual page and completions, the
# CMake package (quern::quern, quern::quern_static) and a pkg-config file. All paths in it are relative
# to where it lies, so that the folder may be moved after installation. A build of the core alone installs
# the static library and the core's headers. Two components, each a Debian package: run, dev.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/quern)
set(dev COMPONENT dev)
set(run COMPONENT run)

if(QUERN_CORE_ONLY)
  set(headers base graph ops model tuning engine data trainer)
  list(TRANSFORM headers REPLACE "(.+)" "include/quern/\\1.h")
  install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/quern ${dev})
  set(pc_requires "")
else()
  install(DIRECTORY include/quern TYPE INCLUDE ${dev} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
  set(pc_requires "zlib libpng libjpeg libcjson libutf8proc yajl libprotobuf-c")
endif()

# Two export sets: who uses the shared library needs none of the development packages.
foreach(kind shared static)
  if(TARGET quern_${kind})
    install(TARGETS quern_${kind} EXPORT quern-${kind}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${dev}
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} ${dev})
    install(EXPORT quern-${kind} NAMESPACE quern:: DESTINATION ${package_folder} ${dev})
  endif()
endforeach()
if(TARGET quern)
  install(TARGETS quern RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} ${run})
  install(FILES docs/quern.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 ${run})
  install(FILES share/completions/quern.bash RENAME quern
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions ${run})
  install(FILES share/completions/_quern
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions ${run})
  install(FILES share/completions/quern.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d ${run})
  install(DIRECTORY share/maps DESTINATION ${CMAKE_INSTALL_DATADIR}/quern ${run}
    FILES_MATCHING PATTERN "*.csv")
  if(QUERN_WITH_LEARN) # examples, which nothing starts by itself
    install(DIRECTORY share/systemd DESTINATION ${CMAKE_INSTALL_DATADIR}/quern ${run})
  endif()
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} ${run})

configure_package_config_file(cmake/quernConfig.cmake.in quernConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(quernConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/quernConfig.cmake ${PROJECT_BINARY_DIR}/quernConfigVersion.cmake
  DESTINATION ${package_folder} ${dev})

# From lib/pkgconfig (or lib/x86_64-linux-gnu/pkgconfig) back to the prefix.
file(RELATIVE_PATH pkgconfig_to_prefix
  /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" pkgconfig_to_prefix "${pkgconfig_to_prefix}")
configure_file(cmake/quern.pc.in quern.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/quern.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${dev})

# ---- packages: cpack --config build/NAME/CPackConfig.cmake makes quern and libquern-dev ----
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME quern)
set(CPACK_PACKAGE_CONTACT "the quern maintainers (see SECURITY.md)")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL run dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # the libraries that programs are linked with
set(CPACK_DEBIAN_RUN_PACKAGE_NAME quern)
set(CPACK_DEBIAN_RUN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libquern-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "zlib1g-dev, libpng-dev, libjpeg62-turbo-dev, libcjson-dev, \
libutf8proc-dev, libyajl-dev, libprotobuf-c-dev")
set(CPACK_COMPONENT_RUN_DESCRIPTION "Trains neural networks where the data is\n The command quern with its \
manual page.")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Trains neural networks where the data is: library\n Headers and libraries \
for C programs.")
include(CPack)
