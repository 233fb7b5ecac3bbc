// A setting in the form that servers load, with what each form loses, read back and compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "encodings/rope/settings.h"
#include "ropewalk/error.h"

namespace ropewalk {

struct ExportRequest {
  Setting setting;
  std::vector<RotaryLayer> layers;  // of the model, before the setting
  AppliedSetting applied;           // ... and after it, for a sequence of `context`
  int64_t context_trained = 0;      // L0
  int64_t context = 0;              // the length that the server is to offer
  std::string architecture;         // GGUF prefix: "llama"
  int head_dim = 0;                 // D; 0 = not known
};

struct ExportFile {
  std::string name;  // below the output folder: "export/hf.json"
  std::string contents;
};

struct ExportTarget {
  std::string as;            // "llama.cpp", "gguf", "hf", "vllm"
  bool expressible = false;  // false: the file says why, and holds no setting
  std::vector<ExportFile> files;
  std::vector<std::string> losses;          // what this form cannot say, in words
  std::string snippet;                      // the part that a person copies
  double max_relative_frequency_error = 0;  // of the form read back, against the measured frequencies
  double amplitude_error = 0;               // absolute
};

// Every target, whether it can express the setting or not. Errors: kUnsupported for a model without rotary layers or a known
// base.
Result<std::vector<ExportTarget>> export_setting(const ExportRequest& request);
// Writes the files below `folder`, each whole or not at all. Errors: kIo, naming the path.
Result<void> write_exports(const std::string& folder, const std::vector<ExportTarget>& targets);

}  // namespace ropewalk
