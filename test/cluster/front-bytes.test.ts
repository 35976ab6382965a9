import { once } from 'node:events'
import { connect, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { absent } from '../support/absent.ts'
import { eventually } from '../support/eventually.ts'
import { KasBehindFront } from './behind-front.ts'
import { type BytesCase, control, http2Cases, last, rawCases } from './front-bytes-cases.ts'
import { type RunningFront, startHaproxy, startNginx } from './front-program.ts'
import { isAnswered, requestBytes } from './raw-http2.ts'

/**
 * Bytes that a front and kas could parse differently, through the fronts that are shipped. No caller's bytes become a
 * request, or part of one, that the caller has not sent. No path that the front denies arrives at kas, and no caller
 * can send the front's own headers.
 */

/** limit for a front that sends nothing. ms */
const silentMs = 20_000

const fronts = [
  { program: 'nginx', start: startNginx, saysAccel: true },
  { program: 'haproxy', start: startHaproxy, saysAccel: false },
] as const

for (const { program, start, saysAccel } of fronts) {
  t.test(`bytes through ${program}`, { skip: absent(program) && `needs ${program}`, timeout: 120_000 }, async (t) => {
    const behind = await KasBehindFront.start(t)
    const front = await start(behind)
    const through = new ThroughFront(t, front, behind)
    await through.isUp()
    for (const [name, { bytes, ...one }] of Object.entries(rawCases)) {
      await through.sends(`HTTP/1.1, ${name}`, one, () => through.raw(bytes + last))
    }
    for (const [name, { head, body, isWebSocket, ...one }] of Object.entries(http2Cases)) {
      const reached = await through.sends(`HTTP/2, ${name}`, one, () => through.http2(requestBytes(head, body)))
      if (!isWebSocket)
        t.notOk(
          reached.some(({ isUpgrade }) => isUpgrade),
          `HTTP/2, ${name}: no upgrade`,
        )
    }
    t.strictSame(behind.accels, [saysAccel ? behind.accelSecret : undefined], 'what the front alone may say')
    await through.raw(`GET /x%0aforged HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`)
    t.notMatch(front.program.stderr, /^forged/m, 'no caller writes a line of its log')
  })
}

class ThroughFront {
  readonly #t: Test
  readonly #front: RunningFront
  readonly #behind: KasBehindFront

  constructor(t: Test, front: RunningFront, behind: KasBehindFront) {
    this.#t = t
    this.#front = front
    this.#behind = behind
  }

  async isUp(): Promise<void> {
    await eventually(async () => {
      await this.raw(control)
      return this.#behind.reached().length > 0
    })
  }

  /** Sends a case, then another caller's request, and checks both results. */
  async sends(name: string, { reaches, isGood }: BytesCase, send: () => Promise<unknown>) {
    const { relay } = this.#behind
    const before = relay.connections
    await send()
    await this.raw(control)
    const all = this.#behind.reached()
    const others = all.filter(({ line }) => line === 'GET /control')
    this.#t.strictSame(
      others.map(({ body }) => body),
      [''],
      `${name}: the next caller has his own alone`,
    )
    const reached = all.filter(({ line }) => line !== 'GET /last' && line !== 'GET /control')
    const found = reached.map(({ line, body }) => [line, body])
    this.#t.strictSame(found, isGood || found.length > 0 ? reaches : [], name)
    const isCarried = reached.some(({ line }) => !line.startsWith('agents'))
    this.#t.ok(relay.connections - before >= (isCarried ? 2 : 1), `${name}: each caller has connections of his own`)
    return reached
  }

  /** Resolves when the front has ended the connection. */
  async raw(bytes: string): Promise<void> {
    const socket = await this.#connect('http/1.1')
    socket.resume()
    socket.write(Buffer.from(bytes, 'latin1'))
    await new Promise((resolve) => socket.once('close', resolve))
  }

  /**
   * Resolves when the front has answered on stream 1, or ended the connection. @throws Error on bytes that are no
   * HTTP/2
   */
  async http2(bytes: Buffer): Promise<void> {
    const socket = await this.#connect('h2')
    let answer = Buffer.alloc(0)
    const answered = new Promise<void>((resolve, reject) => {
      socket.on('data', (chunk: Buffer) => {
        answer = Buffer.concat([answer, chunk])
        try {
          if (isAnswered(answer)) resolve()
        } catch (error) {
          reject(error)
        }
      })
      socket.on('close', resolve)
    })
    socket.write(bytes)
    try {
      await answered
    } finally {
      socket.destroy()
    }
  }

  async #connect(protocol: string): Promise<TLSSocket> {
    const port = Number(new URL(this.#front.url).port)
    const socket = connect({ port, host: '127.0.0.1', ca: this.#behind.ca, ALPNProtocols: [protocol] })
    this.#t.teardown(() => socket.destroy())
    socket.setTimeout(silentMs, () => socket.destroy(new Error('the front says nothing')))
    await once(socket, 'secureConnect')
    socket.on('error', () => undefined) // a front that refuses may reset: only requests at kas count
    return socket
  }
}
