/**
 * Flags of Node for the programs. The young generation stays small, since bytes pass through buffers outside of the
 * heap. With Node's default of 16 MiB there is so little garbage beside them that only full collections would free them
 * (doc/decisions/0010). The first lines of kas.mjs and agentk.mjs, and the images, have the same flags. The programs
 * set V8's other flags later (src/lib/v8.ts).
 */
export const nodeFlags = ['--max-semi-space-size=4']

/**
 * Node's environment. glibc gives each thread memory of its own to allocate from, and V8's threads keep the memory of
 * their collections. The same files have these variables.
 */
export const nodeEnvironment = { MALLOC_ARENA_MAX: '1' }

/**
 * Allocator of the image of kas. glibc returns only the free memory at the end of its heap to the system
 * (doc/decisions/0036).
 */
export const allocatorEnvironment = {
  LD_PRELOAD: 'libjemalloc.so.2',
  MALLOC_CONF: 'background_thread:true,narenas:1,dirty_decay_ms:5000,muzzy_decay_ms:0',
}
