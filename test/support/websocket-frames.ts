export interface WebSocketFrame {
  readonly final: boolean
  readonly opcode: number
  /** undefined: not masked */
  readonly mask: number | undefined
  /** size of header and payload */
  readonly bytes: number
  /** payload without its mask */
  readonly payload: Buffer
}

/** Reads frames as RFC 6455 5.2 has them; an incomplete last one is left out. */
export function webSocketFrames(sent: Buffer): WebSocketFrame[] {
  const frames: WebSocketFrame[] = []
  let at = 0
  const has = (bytes: number) => at + bytes <= sent.length
  while (has(2)) {
    const [flags, second] = sent.subarray(at) as unknown as [number, number]
    const short = second & 0x7f
    const lengthBytes = short === 127 ? 8 : short === 126 ? 2 : 0
    const maskBytes = second & 0x80 ? 4 : 0
    const headBytes = 2 + lengthBytes + maskBytes
    if (!has(headBytes)) break
    const length =
      lengthBytes === 0 ? short : sent.readUIntBE(lengthBytes === 8 ? at + 4 : at + 2, lengthBytes === 8 ? 6 : 2)
    const bytes = headBytes + length
    if (!has(bytes)) break
    const mask = maskBytes ? sent.readUInt32BE(at + headBytes - 4) : undefined
    const key = Buffer.alloc(4)
    key.writeUInt32BE(mask ?? 0)
    const payload = Buffer.from(sent.subarray(at + headBytes, at + bytes))
    for (let i = 0; i < length; i++) payload[i] = (payload[i] as number) ^ (key[i & 3] as number)
    frames.push({ final: (flags & 0x80) !== 0, opcode: flags & 0x0f, mask, bytes, payload })
    at += bytes
  }
  return frames
}
