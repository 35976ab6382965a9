import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { isIPv6 } from 'node:net'
import type { TornDown } from '../../support/processes.ts'

/** Answer to a question: addresses (none: no data), no such name, a server failure, or no answer at all. */
export type DnsAnswer = readonly string[] | 'nxdomain' | 'servfail' | 'silence'

export interface DnsQuestion {
  readonly name: string
  readonly type: 'A' | 'AAAA'
}

const types: Readonly<Record<number, DnsQuestion['type']>> = { 1: 'A', 28: 'AAAA' }
const headBytes = 12
const responseCodes = { nxdomain: 3, servfail: 2 }

/**
 * A DNS server on UDP, by default on loopback, that answers A and AAAA as the test says. It follows RFC 1035, without
 * compression in questions.
 */
export class DnsServer {
  readonly questions: DnsQuestion[] = []
  readonly #waiting: { count: number; resolve: () => void }[] = []
  answer: (question: DnsQuestion) => DnsAnswer = () => 'nxdomain'
  readonly #socket: Socket = createSocket('udp4')

  /** @param at - default: any port of loopback */
  static async start(t: TornDown, at: { host: string; port: number } = { host: '127.0.0.1', port: 0 }) {
    const server = new DnsServer()
    const socket = server.#socket
    socket.on('message', (query, from) => server.#onQuery(query, from))
    socket.bind(at.port, at.host)
    await once(socket, 'listening')
    t.teardown(() => new Promise<void>((resolve) => socket.close(resolve)))
    return server
  }

  /** address in the form for `setServers` of node:dns */
  get address(): string {
    const { address, port } = this.#socket.address()
    return `${address}:${port}`
  }

  /** Resolves when `more` further questions have come. */
  asked(more: number): Promise<void> {
    return new Promise((resolve) => this.#waiting.push({ count: this.questions.length + more, resolve }))
  }

  #onQuery(query: Buffer, from: RemoteInfo): void {
    const labels: string[] = []
    let at = headBytes
    for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
      labels.push(query.toString('latin1', at + 1, at + 1 + length))
      at += 1 + length
    }
    const type = types[query.readUInt16BE(at + 1)]
    if (!type) return
    const question = { name: labels.join('.').toLowerCase(), type }
    this.questions.push(question)
    for (const { count, resolve } of this.#waiting) if (this.questions.length >= count) resolve()
    const answer = this.answer(question)
    if (answer !== 'silence') this.#socket.send(response(query.subarray(0, at + 5), answer), from.port, from.address)
  }
}

function response(query: Buffer, answer: Exclude<DnsAnswer, 'silence'>): Buffer {
  const head = Buffer.from(query)
  const failed = typeof answer === 'string'
  head[2] = 0x84 // an authoritative answer
  head[3] = failed ? responseCodes[answer] : 0
  head.writeUInt16BE(failed ? 0 : answer.length, 6)
  head.writeUInt16BE(0, 8)
  head.writeUInt16BE(0, 10) // the EDNS part of the question is not repeated
  return Buffer.concat([head, ...(failed ? [] : answer.map(record))])
}

function record(address: string): Buffer {
  const bytes = isIPv6(address) ? ipv6Bytes(address) : Buffer.from(address.split('.').map(Number))
  const head = Buffer.alloc(12)
  head.writeUInt16BE(0xc000 | headBytes, 0) // points to the name in the question
  head.writeUInt16BE(bytes.length === 4 ? 1 : 28, 2)
  head.writeUInt16BE(1, 4) // class IN
  head.writeUInt32BE(0, 6) // TTL 0
  head.writeUInt16BE(bytes.length, 10)
  return Buffer.concat([head, bytes])
}

function ipv6Bytes(address: string): Buffer {
  const [left = [], right = []] = address.split('::').map((side) => side.split(':').filter((group) => group !== ''))
  const groups = [...left, ...Array<string>(8 - left.length - right.length).fill('0'), ...right]
  return Buffer.from(groups.map((group) => group.padStart(4, '0')).join(''), 'hex')
}
