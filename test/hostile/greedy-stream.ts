import { once } from 'node:events'
import type { TLSSocket } from 'node:tls'
import type { ReplicaPorts } from '../../dev/start/ports.ts'
import { delay } from '../../src/lib/signals.ts'
import type { Round } from './attack.ts'
import { dial, type Stage, textOf } from './stage.ts'

/** A request that has no end by itself. */
export interface EndlessRequest {
  /** name in words */
  readonly kind: string
  /** makes its request head; called for each try */
  readonly head: () => string
  /** bytes that its body adds from time to time; absent: it has no body */
  readonly drip?: string
  /** absent: at the entry */
  readonly at?: ReplicaPorts
  /** frames that follow once it is a WebSocket; absent: none */
  readonly frames?: readonly Buffer[]
}

export interface GreedyOptions {
  /** duration of the attack. ms */
  readonly lastsMs: number
  /** kinds of which one must be refused before the attack is over; default: all */
  readonly refused?: readonly string[]
}

const dialsAtOnce = 20
/** Pause before the next try, shorter than kas asks for. ms */
const againMs = 1000
const dripMs = 1000

/** One request, made again after each refusal, and on another connection when its own has ended. */
class GreedyStream {
  readonly #stage: Stage
  readonly #request: EndlessRequest
  readonly #said: (answer: string) => void
  #socket: TLSSocket | undefined
  #isOver = false

  /** @param said - called with each refusal */
  constructor(stage: Stage, request: EndlessRequest, said: (answer: string) => void) {
    this.#stage = stage
    this.#request = request
    this.#said = said
  }

  /** Resolves once its request is sent. */
  async open(signal: AbortSignal): Promise<void> {
    const { head, drip, at = this.#stage.entry, frames = [] } = this.#request
    const socket = dial(this.#stage.ca, at.kubernetes)
    this.#socket = socket
    const ask = () => void (socket.writable && socket.write(head()))
    socket.on('data', (chunk) => {
      const text = String(chunk)
      if (text.startsWith('HTTP/1.1 101')) for (const frame of frames) socket.write(frame)
      if (frames.length > 0 && text.includes('You hold')) this.#said(text)
      if (!/^HTTP\/1\.1 [45]/.test(text)) return
      this.#said(textOf(text))
      if (drip) socket.destroy()
      else setTimeout(ask, againMs)
    })
    socket.once('close', () => void this.#again(signal))
    await once(socket, 'secureConnect', { signal })
    ask()
    if (!drip) return
    const dripping = setInterval(() => socket.write(drip), dripMs)
    socket.once('close', () => clearInterval(dripping))
  }

  end(): void {
    this.#isOver = true
    this.#socket?.destroy()
  }

  async #again(signal: AbortSignal): Promise<void> {
    await delay(againMs)
    if (!this.#isOver && !signal.aborted) await this.open(signal).catch(() => undefined)
  }
}

/** Makes all requests, some at a time. @throws the signal's reason */
export async function playGreedy(
  stage: Stage,
  requests: readonly EndlessRequest[],
  { lastsMs, refused = requests.map(({ kind }) => kind) }: GreedyOptions,
  signal: AbortSignal,
): Promise<Round> {
  const kinds = [...new Set(refused)]
  const told = new Map<string, string>()
  const all = requests.map((request) => {
    const { kind } = request
    return new GreedyStream(stage, request, (answer) => {
      if (answer.includes('You hold') && !told.has(kind)) told.set(kind, answer)
    })
  })
  const end = async () => {
    for (const one of all) one.end()
  }
  try {
    for (let i = 0; i < all.length; i += dialsAtOnce)
      await Promise.all(all.slice(i, i + dialsAtOnce).map((one) => one.open(signal)))
    const isTold = () => kinds.every((kind) => told.has(kind))
    for (const until = performance.now() + lastsMs; performance.now() < until || !isTold(); )
      await delay(againMs / 4, signal)
  } catch (error) {
    await end()
    throw error
  }
  return { refusal: kinds.map((kind) => `${kind}: ${told.get(kind)}`).join('; '), end }
}
