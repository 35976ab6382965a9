import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ClientHttp2Session, Http2Stream, IncomingHttpHeaders } from 'node:http2'

/**
 * Bare bytes, the second hop with calls one after another on long-lived streams. A call is a line. Its answer is pieces
 * after their length: the head, the body, and an empty one.
 */

export const lanePath = '/lane'
const lengthBytes = 4

/** Serves a lane at the replica that has the agent. */
export function serveLane(lane: Http2Stream, agent: () => ClientHttp2Session): void {
  lane.on('data', (line: Buffer) => {
    const [method, path] = line.toString().trimEnd().split(' ')
    const stream = agent().request({ ':method': method, ':path': path })
    stream.on('response', ({ ':status': status, 'content-type': type, 'content-length': length }) => {
      lane.write(piece(Buffer.from(JSON.stringify([status, type, length]))))
    })
    stream.on('data', (chunk: Buffer) => {
      if (lane.write(piece(chunk))) return
      stream.pause()
      lane.once('drain', () => stream.resume())
    })
    stream.on('end', () => lane.write(piece(Buffer.alloc(0))))
  })
}

/** Carries requests from the other replica to it. */
export function laneCarrier(holder: ClientHttp2Session) {
  const idle: EntryLane[] = []
  return (request: IncomingMessage, response: ServerResponse) => {
    const lane = idle.pop() ?? new EntryLane(holder.request({ ':method': 'POST', ':path': lanePath }))
    lane.carry(request, response, () => idle.push(lane))
  }
}

class EntryLane {
  readonly #stream: Http2Stream
  #response: ServerResponse | undefined
  #ended = () => {}
  #rest: Buffer = Buffer.alloc(0)

  constructor(stream: Http2Stream) {
    this.#stream = stream
    stream.on('data', (chunk: Buffer) => this.#read(chunk))
  }

  carry({ method, url }: IncomingMessage, response: ServerResponse, ended: () => void): void {
    this.#response = response
    this.#ended = ended
    this.#stream.write(`${method} ${url}\n`)
  }

  #read(chunk: Buffer): void {
    let bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk
    while (bytes.length >= lengthBytes) {
      const end = lengthBytes + bytes.readUInt32BE()
      if (bytes.length < end) break
      this.#take(bytes.subarray(lengthBytes, end))
      bytes = bytes.subarray(end)
    }
    this.#rest = bytes
  }

  #take(bytes: Buffer): void {
    const response = this.#response as ServerResponse
    if (bytes.length === 0) {
      response.end()
      this.#ended()
    } else if (!response.headersSent) {
      const [status, type, length] = JSON.parse(bytes.toString()) as [number, string?, string?]
      response.writeHead(status, headersOf({ 'content-type': type, 'content-length': length }))
    } else if (!response.write(bytes)) {
      this.#stream.pause()
      response.once('drain', () => this.#stream.resume())
    }
  }
}

function headersOf(headers: IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value)) as Record<string, string>
}

function piece(bytes: Buffer): Buffer {
  const all = Buffer.allocUnsafe(lengthBytes + bytes.length)
  all.writeUInt32BE(bytes.length)
  all.set(bytes, lengthBytes)
  return all
}
