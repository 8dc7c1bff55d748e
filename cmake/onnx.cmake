# The messages of ONNX files (src/format/onnx/onnx_parts.h) from the schema of Debian's libonnx-dev, made
# into C by protoc-c; names of fields are left out of what is compiled, which needs numbers only.
set(QUERN_ONNX ${PROJECT_BINARY_DIR}/onnx)

find_program(PROTOC_C protoc-c DOC "The compiler of protobuf-c")
find_file(ONNX_PROTO onnx/onnx.proto PATHS /usr/include NO_CMAKE_FIND_ROOT_PATH
  DOC "The schema of ONNX files")
if(NOT PROTOC_C OR NOT ONNX_PROTO)
  message(FATAL_ERROR "ONNX files need protoc-c and the schema onnx.proto: install "
    "protobuf-c-compiler and libonnx-dev (script/bootstrap does), or say where they are with "
    "-DPROTOC_C=PATH and -DONNX_PROTO=PATH/onnx.proto")
endif()

set(onnx_messages ${QUERN_ONNX}/onnx.pb-c.c ${QUERN_ONNX}/onnx.pb-c.h)
add_custom_command(OUTPUT ${onnx_messages}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${QUERN_ONNX}
  COMMAND sh -c "sed 's/LITE_RUNTIME/CODE_SIZE/' '${ONNX_PROTO}' > '${QUERN_ONNX}/onnx.proto'"
  COMMAND ${PROTOC_C} --proto_path=${QUERN_ONNX} --c_out=${QUERN_ONNX} ${QUERN_ONNX}/onnx.proto
  DEPENDS ${ONNX_PROTO} COMMENT "Making the messages of ONNX files" VERBATIM)
set_source_files_properties(${QUERN_ONNX}/onnx.pb-c.c PROPERTIES COMPILE_OPTIONS "-w")
