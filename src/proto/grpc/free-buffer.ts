/** Smaller ones share memory with others, or lie in V8's heap. */
const ownMemoryBytes = 4096

/**
 * Frees the memory of a buffer that nobody reads any more, which is empty from then on. Else it would wait for a full
 * collection, and each brings the next one nearer: they were a quarter of what large bodies cost over WebSocket.
 * One that shares its memory is left alone.
 */
export function freeBuffer({ buffer, length }: Buffer): void {
  if (length >= ownMemoryBytes && length === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0)
}
