#include "frame.h"

int main(int argc, char** argv) {
  ropewalk::app::install_signal_handlers();
  return ropewalk::app::finish_output(ropewalk::app::run_program(argc, argv));
}
