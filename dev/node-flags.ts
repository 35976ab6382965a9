/**
 * How Node is started for the programs. The young generation stays small: bytes pass through buffers outside of the
 * heap, and with Node's default of 16 MiB so little garbage is made beside them that only full collections would free
 * them (doc/decisions/0010). Also in the first lines of kas.mjs and agentk.mjs, and in the images; what V8 takes later is set by the
 * programs (src/lib/v8.ts).
 */
export const nodeFlags = ['--max-semi-space-size=4']

/**
 * Its environment. glibc gives each thread memory of its own to allocate from, and V8's threads keep what they had while
 * they collected. Also in those files.
 */
export const nodeEnvironment = { MALLOC_ARENA_MAX: '1' }

/**
 * The allocator of the image of kas. glibc gives the system back what is free at the end of its heap alone
 * (doc/decisions/0036).
 */
export const allocatorEnvironment = {
  LD_PRELOAD: 'libjemalloc.so.2',
  MALLOC_CONF: 'background_thread:true,narenas:1,dirty_decay_ms:5000,muzzy_decay_ms:0',
}
