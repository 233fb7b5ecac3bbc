// A model with its tokenizer. Apart from model.cc, so that what needs weights alone does not link the tokenizers.
#include "base/fail.h"
#include "engine/model.h"

namespace ropewalk {

Result<Model> Model::open(const std::string& path) {
  ROPEWALK_TRY(Model model, open_weights(path));
  if (model.gguf_ != nullptr) {
    ROPEWALK_TRY(model.tokenizer_, make_tokenizer(*model.gguf_));
  } else {
    ROPEWALK_TRY(model.tokenizer_, load_tokenizer_json(path));
  }
  if (model.tokenizer_->size() > model.spec_.vocabulary) {
    return fail(ErrorCode::kCorrupt,
                "[engine] {}: expected a tokenizer of at most {} pieces (rows of the embedding), but got {}", path,
                model.spec_.vocabulary, model.tokenizer_->size());
  }
  return model;
}

}  // namespace ropewalk
