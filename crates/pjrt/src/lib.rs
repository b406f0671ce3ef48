//! Safe PJRT: plugins, clients, executables, buffers and events.
