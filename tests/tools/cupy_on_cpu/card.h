// What the parts of the card share.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
extern "C" void fake_note(const char* kind, const char* name, size_t bytes);
extern "C" int fake_refuse(const char* what, int status);
// Work on a stream: done now and noted, or, while the stream is captured, a node of its graph.
// Returns 0 or an error of CUDA's.
int fake_work(void* stream, const char* kind, const std::string& name, size_t bytes,
              std::function<void()> work);
bool fake_is_captured(void* stream);
