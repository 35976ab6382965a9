/**
 * Masks or unmasks `bytes` where they lie (RFC 6455 5.3).
 *
 * @param key - four bytes
 * @param at - where in their frame the bytes begin
 */
export function applyMask(bytes: Uint8Array, key: Uint8Array, at = 0): void {
  const { buffer, byteOffset, length } = bytes
  const toWord = length < 8 ? length : -byteOffset & 3
  maskBytes(bytes.subarray(0, toWord), key, at)
  if (toWord === length) return
  const words = new Int32Array(buffer, byteOffset + toWord, (length - toWord) >> 2)
  const turned = Uint8Array.from(key, (_, i) => key[(at + toWord + i) & 3] as number)
  const [word] = new Int32Array(turned.buffer) as unknown as [number]
  for (let i = 0; i < words.length; i++) words[i] = (words[i] as number) ^ word
  const rest = toWord + words.byteLength
  maskBytes(bytes.subarray(rest), key, at + rest)
}

function maskBytes(bytes: Uint8Array, key: Uint8Array, at: number): void {
  for (let i = 0; i < bytes.length; i++) bytes[i] = (bytes[i] as number) ^ (key[(at + i) & 3] as number)
}
