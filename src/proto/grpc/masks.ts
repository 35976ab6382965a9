const keyBytes = 4
/** Length below which an array of words costs more than it saves. */
const wordsFrom = 64

/**
 * Masks or unmasks `bytes` in place (RFC 6455 5.3).
 *
 * @param key - four bytes
 * @param at - place of the first byte in its frame
 */
export function applyMask(bytes: Uint8Array, key: Uint8Array, at = 0): void {
  if (bytes.length < wordsFrom) byByte(bytes, key, at)
  else byWord(bytes, key, at)
}

/** Key for bytes that begin at this place of a frame. */
function turned(key: Uint8Array, at: number): Uint8Array {
  return Buffer.from(key.map((_, i) => key[(at + i) % keyBytes] as number))
}

function byByte(bytes: Uint8Array, key: Uint8Array, at: number): void {
  for (let i = 0; i < bytes.length; i++) bytes[i] = (bytes[i] as number) ^ (key[(at + i) % keyBytes] as number)
}

/** @param bytes - at least as many as a word has */
function byWord(bytes: Uint8Array, key: Uint8Array, at: number): void {
  const { buffer, byteOffset, length } = bytes
  const start = -byteOffset & (keyBytes - 1)
  const words = new Int32Array(buffer, byteOffset + start, Math.floor((length - start) / keyBytes))
  const [word] = new Int32Array(Uint8Array.from(turned(key, at + start)).buffer) as unknown as [number]
  for (let i = 0; i < words.length; i++) words[i] = (words[i] as number) ^ word
  const rest = start + words.byteLength
  byByte(bytes.subarray(0, start), key, at)
  byByte(bytes.subarray(rest), key, at + rest)
}
