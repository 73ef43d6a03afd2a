// What NVRTC and cuBLAS say of themselves from CUDA 13 on, which no longer serves Volta. All else is that of CUDA 12.
#define API extern "C" __attribute__((visibility("default"))) int

API nvrtcVersion(int *major, int *minor) {
  *major = 13;
  *minor = 99;
  return 0;
}

API nvrtcGetNumSupportedArchs(int *count) {
  *count = 3;
  return 0;
}

API nvrtcGetSupportedArchs(int *architectures) {
  const int known[] = {75, 80, 90};
  for (int place = 0; place < 3; place++) architectures[place] = known[place];
  return 0;
}

API cublasGetProperty(int which, int *value) {
  *value = which == 0 ? 13 : 0;
  return 0;
}
