/** HTTP/2 as bytes: headers that no library would send, and frames as they come back. */

const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const types = { data: 0, headers: 1, reset: 3, settings: 4, goaway: 7 } as const
const endStream = 1
const endHeaders = 4
const headBytes = 9
/** length of a frame, by HTTP/2's default */
const maxFrameBytes = 16_384

export type RawHead = readonly (readonly [name: string, value: string])[]

/** First bytes of a connection, with one request on stream 1. */
export function requestBytes(head: RawHead, body?: string): Buffer {
  const block = Buffer.concat(head.map(([name, value]) => literal(name, value)))
  const flags = body === undefined ? endHeaders | endStream : endHeaders
  return Buffer.concat([
    preface,
    frame(types.settings, 0, 0, Buffer.alloc(0)),
    frame(types.headers, flags, 1, block),
    ...(body === undefined ? [] : [frame(types.data, endStream, 1, Buffer.from(body, 'latin1'))]),
  ])
}

/**
 * Returns true if stream 1 is over in these bytes.
 *
 * @throws Error if they are not frames alone
 */
export function isAnswered(bytes: Buffer): boolean {
  for (let at = 0; at + headBytes <= bytes.length; ) {
    const length = bytes.readUIntBE(at, 3)
    const [type, flags] = [bytes[at + 3] ?? 0, bytes[at + 4] ?? 0]
    if (length > maxFrameBytes || type > 9) throw new Error(`no frame: ${bytes.toString('latin1', at, at + 100)}`)
    if (at + headBytes + length > bytes.length) return false
    const isEnd = (type === types.headers || type === types.data) && (flags & endStream) !== 0
    if (isEnd || type === types.reset || type === types.goaway) return true
    at += headBytes + length
  }
  return false
}

function frame(type: number, flags: number, stream: number, body: Buffer): Buffer {
  const head = Buffer.alloc(headBytes)
  head.writeUIntBE(body.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, body])
}

/** A header that is not indexed; names and values have fewer than 127 bytes. */
function literal(name: string, value: string): Buffer {
  const text = (of: string) => Buffer.concat([Buffer.of(of.length), Buffer.from(of, 'latin1')])
  return Buffer.concat([Buffer.of(0), text(name), text(value)])
}
